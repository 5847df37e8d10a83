"""What a program asks of the libraries of a real machine: their versions."""

NCCL_VERSION = (2, 27, 5)  # the version that PyTorch 2.13 comes with, for CUDA 13
CUDA_VERSION = "13.0"
