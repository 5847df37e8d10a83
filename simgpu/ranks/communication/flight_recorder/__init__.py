"""PyTorch's flight recorder for ranks: their last calls, written after a hang.

A group of NCCL keeps the last calls of its process, and writes them to a file when one of them
never ends. PyTorch's ``torchfrtrace`` (`torch.distributed.flight_recorder.fr_trace`) compares the
files of all ranks, and names the call and the ranks at which they part. Here ranks record the same,
in the same format, if the environment asks for it as it does for NCCL (``settings.py``).

``entries.py`` describes a call as NCCL's groups do, ``recorder.py`` keeps the entries of a rank,
and ``recorders.py`` writes the files of all. On real GPUs a process that has ended writes none;
here its rank does, so that the analyser has them all. A rank that was killed writes none.
"""
