"""The command ``simgpu plan``: a training step of a model on many GPUs, simulated.

::

    simgpu plan llama3-70b --gpus 1024 --gpu h100 --tp 8 --pp 4

and as a function: ``simgpu.plan("llama3-70b", gpus=1024, gpu="h100", tp=8, pp=4)``.

A step is a program of `torch.distributed` that a few ranks run in place of all, on a part of the
layers, micro-batches and stages; its time and memory are extrapolated linearly. The program is that
of the comparison with published measurements.

Start with ``request.py`` (what is asked: a model, on which GPUs, split how, with which batch),
``step/`` (the job that a request describes, and its program) and ``simulate.py`` (its time and
memory). ``plans.py`` says what a plan is, ``presets.py``, ``model_file.py`` and ``user_model.py``
where models come from; ``options.py``, ``command.py`` and ``report.py`` are the command,
``interface.py`` the function. `simgpu.search` looks for the fastest plan (``--search``).
"""

from simgpu.callable_module import make_callable
from simgpu.plan.interface import plan
from simgpu.plan.presets import PRESETS
from simgpu.plan.step.rules import PlanError

__all__ = ["PRESETS", "PlanError", "plan"]

make_callable(__name__, plan)
