"""Packages that stand in for those of real GPUs, found last on the path of a script."""
