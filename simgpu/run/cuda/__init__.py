"""CUDA's spelling: scripts that say ``cuda`` and ``nccl`` run on simulated GPUs as they are.

Only ``simgpu run`` does this, in its own process, in which real GPUs are hidden. PyTorch's
dispatcher takes Python kernels for the key ``CUDA``, so ``device="cuda"`` runs the same kernels as
``device="sim"``, without any test in Python. To C++ a simulated tensor stays on ``meta:i``; its
``.device`` in Python is ``cuda:i``.

Until a script says ``cuda``, its devices are called ``sim``, as `torch.accelerator` names them.

Start reading in ``spelling.py``. ``names.py`` has what replaces `torch.cuda`, ``refused.py`` what
is refused, ``tensors.py`` methods of tensors, ``kernels.py`` what the dispatcher is told,
``distributed.py`` NCCL, ``current_device.py`` the check for a forgotten ``set_device``,
``generators.py`` random generators, ``tracing.py`` compilers, ``graph_breaks.py`` calls that they
cannot trace, ``flex_attention.py`` FlexAttention, ``graphs.py`` CUDA graphs.
"""
