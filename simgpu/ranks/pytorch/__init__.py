"""What PyTorch's distributed package is told while ranks run; start reading in ``patches.py``."""
