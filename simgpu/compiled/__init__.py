"""Compiled regions: the program runs eagerly, and is charged as `torch.compile` would run it.

Inside a region, a call of a compiled module or function or its backward pass, operations run one by
one, for values or shapes, but are recorded (``tape.py``) instead of charged. When the region ends,
or something outside it needs the clock, the recorded operations become a plan (``plan.py``): what
they are to a compiler (``nodes.py``), what is kept for the backward pass (``kept.py``) and which of
them one kernel does (``fusion.py``). Its kernels are charged. A plan is made once for all regions
that do the same.

The rules are those of PyTorch's Inductor 2.13, in our own code; tests compare the kernels with its
own scheduler. Compiling takes no time here.
"""
