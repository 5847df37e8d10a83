"""The command ``simgpu plan``: a training step of a model on many GPUs, simulated.

::

    simgpu plan llama3-70b --gpus 1024 --gpu h100 --tp 8 --pp 4

A step is a program of `torch.distributed` that a few ranks run in place of all, on a part of the
layers, micro-batches and stages; its time and memory go on in a straight line. The program is that
of the comparison with published measurements.

Start with ``step/`` (the program) and ``simulate.py`` (its time and memory). ``presets.py``,
``model_file.py`` and ``user_model.py`` say where models come from; ``options.py``, ``command.py``
and ``report.py`` are the command. `simgpu.search` looks for the fastest plan (``--search``).
`predict` is the command as a function.
"""

from simgpu.plan.interface import predict
from simgpu.plan.step.job import PlanError

__all__ = ["PlanError", "predict"]
