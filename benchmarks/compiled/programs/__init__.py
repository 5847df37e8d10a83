"""Training scripts whose steps others have measured eager and compiled, in words of our own.

Each follows its source in what is computed, in which precision, and in what is compiled; `timing`
is what they share. They are plain PyTorch, and run with ``simgpu run -m`` or ``torchrun -m``.
"""
