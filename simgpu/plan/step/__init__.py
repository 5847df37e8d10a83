"""A training step as the program that each rank runs.

Start with ``job.py`` (what a job is) and ``program.py`` (its step). ``layers.py`` and the modules
that it imports are what the step computes, ``gradients.py`` what replicas do. All of it calls
PyTorch's public operations; what is compiled is charged as a script's is (``simgpu/compiled``).
"""
