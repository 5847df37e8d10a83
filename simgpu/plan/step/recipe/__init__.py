"""What recipes of training choose beside the model: the optimizer, the loss, what is recomputed."""
