"""The order in which a rank's calls run on its GPU, and what waits for ever because of it."""
