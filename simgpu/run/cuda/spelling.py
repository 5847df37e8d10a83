"""Put CUDA's names in place of PyTorch's while scripts run."""

import os
import re
import sys
import tokenize
from contextlib import contextmanager
from functools import partial

from simgpu import naming
from simgpu.backend.pytorch import register
from simgpu.backend.pytorch.replacements import Replacements
from simgpu.clock.current import state
from simgpu.clock.hooks import HOOKS
from simgpu.naming import CUDA, NAME, spelling
from simgpu.ranks.pytorch.patches import as_accelerator
from simgpu.run.cuda import (
    current_device,
    distributed,
    generators,
    graph_breaks,
    graphs,
    kernels,
    names,
    storages,
    tensors,
    tracing,
)

_STAND_INS = os.path.join(os.path.dirname(os.path.dirname(__file__)), "stand_ins")


@contextmanager
def cuda_spelling(mentioned, say, eager=False):
    """Run scripts that say ``cuda`` on simulated GPUs inside a ``with`` block.

    Parameters
    ----------
    mentioned : bool
        Whether the script says ``cuda``; else devices are called ``sim`` until it does, in a
        module that it imports.
    say : callable
        Prints what the launcher says.
    eager : bool, default False
        Whether what the script compiles is to run as eager code.

    Yields
    ------
    tracing.Compiled
        Tells what the script has compiled.
    """
    naming.take_slot()
    register.register()  # before: what it replaces is restored after
    compiled = tracing.Compiled(say, eager)
    with Replacements() as scoped:
        scoped.callback(_restore_visible, os.environ.get("CUDA_VISIBLE_DEVICES"))
        os.environ["CUDA_VISIBLE_DEVICES"] = ""  # real GPUs are left alone
        for types in (naming.TYPES, naming.TYPES_OF_TENSORS):
            types.add(CUDA)
            scoped.callback(types.discard, CUDA)
        scoped.callback(setattr, spelling, "name", NAME)
        sys.path.append(_STAND_INS)  # last: a package that is installed comes first
        scoped.callback(_drop_stand_ins)
        scoped.add({f"{HOOKS}.on_cuda": _on_cuda, f"{HOOKS}.say": say})
        if mentioned:
            say_cuda()
        for library in kernels.register():
            scoped.callback(library._destroy)
        for replacements in (
            names.replacements, partial(current_device.replacements, say), tensors.replacements,
            storages.replacements, kernels.replacements, generators.replacements, as_accelerator,
            partial(distributed.replacements, say_cuda),
            partial(graphs.replacements, current_device.check),
            partial(tracing.replacements, compiled), graph_breaks.replacements,
        ):  # fmt: skip
            scoped.add(replacements())  # each may wrap what an earlier one has put in place
        yield compiled


def _drop_stand_ins():
    if _STAND_INS in sys.path:
        sys.path.remove(_STAND_INS)
    for name, module in sys.modules.copy().items():
        if (getattr(module, "__file__", None) or "").startswith(_STAND_INS):
            del sys.modules[name]


def _restore_visible(visible):
    os.environ.pop("CUDA_VISIBLE_DEVICES", None)
    if visible is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = visible


def _on_cuda(index):
    if spelling.name is not CUDA:
        say_cuda()
    current_device.record_use(index)


def say_cuda() -> None:
    """Call simulated GPUs ``cuda`` from now on, as the script does."""
    if spelling.name is CUDA:
        return
    spelling.name = CUDA
    if state.machine is None:
        return
    for device in state.machine.devices:
        device.rename(device.number)
        device.name_row()


def mentions_cuda(path) -> bool:
    """Return whether a script says ``cuda`` or ``nccl`` outside its comments."""
    with tokenize.open(path) as file:
        return any(re.search(r"\b(cuda|nccl)\b", line.partition("#")[0]) for line in file)
