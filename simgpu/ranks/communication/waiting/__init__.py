"""How ranks wait for communication: works and futures, and the tensors in flight until then."""
