"""Tools that build and check the book."""
