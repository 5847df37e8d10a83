"""What a kernel costs: what it reads, writes and computes, and at which of a GPU's peaks.

``precision.py`` says at which peak, by the type of the numbers. Imports `simgpu.clock` and what
that imports.
"""
