"""Patches of PyTorch's distributed package while ranks run; start reading in ``patches.py``."""
