"""Check the arguments of collectives and messages: what NCCL refuses is refused here.

So is what NCCL takes, but turns into wrong numbers. Start reading in ``arguments.py``, a table of
the calls; ``types.py`` has the types and the reductions, ``sizes.py`` how many elements a call
needs, ``memory.py`` how tensors lie in memory, and ``pairs.py`` what two ranks have to agree on.
Tensors on the host follow the rules of gloo, to which PyTorch gives them.
"""
