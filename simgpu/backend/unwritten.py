"""Find programs that read memory which nothing has written, such as what `torch.empty` returns.

On a GPU such memory holds what was there before: results differ from run to run, often without an
error. What counts as written, and what as a read, is chosen so that no sound program is named:

- Memory is written as soon as anything has been written to a part of it, since programs, PyTorch
  among them, leave padding unwritten that they read and do not use.
- Copies do not read. What they make of unwritten memory is unwritten, too, until it is used.
- An operand does not count that may be overwritten as a whole, that ``where`` chooses from, or that
  is multiplied by ``beta=0``; nor what a CUDA graph captures, since that runs nothing.
- Operations of other libraries write to all that they get.
- PyTorch itself reads such memory to find the shapes of a pipeline's messages, and to make the
  states of an optimiser before they are loaded.
"""

from contextlib import contextmanager
from pathlib import Path

import torch.distributed as dist
from torch.utils._pytree import tree_leaves

from simgpu import user_frame
from simgpu.backend import tensor as backend
from simgpu.backend.tensor import SimTensor
from simgpu.kernels import traffic
from simgpu.kernels.facts import tensors_of

active = None  # the `Watch` inside a `watching` block
_TORCH = Path(dist.__file__).parent
_FINDS_SHAPES = (str(_TORCH / "pipelining"),)
_MAKES_STATES = (str(_TORCH / "checkpoint" / "state_dict.py"),)
_MAKE = {"empty_like", "new_empty", "new_empty_strided", "empty_permuted"}
# What they make of unwritten memory is unwritten.
_COPIES = {
    "_chunk_cat", "_to_copy", "cat", "clone", "constant_pad_nd", "flip", "repeat", "roll", "rot90",
    "split_with_sizes_copy", "stack", "tril", "triu",
}  # fmt: skip
_COPIES_INTO = {"copy_", "_foreach_copy_"}
_MAY_OVERWRITE = {
    "_index_put_impl", "_resize_output", "copy", "exponential", "fill", "index_copy", "index_fill",
    "index_put", "masked_fill", "masked_scatter", "normal_functional", "put", "random",
    "rrelu_with_noise", "scatter", "select_scatter", "slice_scatter", "uniform", "zero",
}  # fmt: skip
_PUT = {"_index_put_impl", "index_put", "put"}  # whose fourth operand says whether it accumulates
_WITH_BETA = {"_addmm_activation", "addbmm", "addmm", "addmv", "addr", "baddbmm"}
_REDUCTIONS = {"all_reduce", "reduce", "reduce_scatter"}


@contextmanager
def watching():
    """Warn of reads of unwritten memory inside a ``with`` block, once for each line that reads.

    Yields the `Watch`.
    """
    global active
    outer, active = (active, backend.observe), Watch()
    backend.observe = active.run
    try:
        yield active
    finally:
        active, backend.observe = outer


class Watch:
    """Sees every operation on simulated tensors, and every collective.

    Attributes
    ----------
    texts : list of str
        What it has warned of.
    """

    def __init__(self):
        self.texts, self._named = [], set()  # lines

    def run(self, handler, op, args, kwargs):
        """Run one operation, and warn if it reads what nothing has written."""
        if _holds_unwritten(args) or (kwargs and _holds_unwritten(kwargs.values())):
            origin = self._see(op, args, kwargs)
        else:
            origin = None
        result = handler(op, args, kwargs)
        if op.packet_name in _MAKE:
            self.made(op.packet_name, result)
        elif origin is not None:
            for tensor in _simulated(result):
                tensor._block.unwritten = origin
        return result

    def made(self, name, tensor) -> None:
        """Note that an operation has made a tensor without writing to it."""
        watched = isinstance(tensor, SimTensor) and tensor._device.machine.numerics
        if watched and tensor.numel() and not user_frame.is_called_from(_FINDS_SHAPES):
            tensor._block.unwritten = f"{name} ({user_frame.line()})"

    def communicate(self, name, given, filled) -> None:
        """Note that a collective or message reads and writes tensors."""
        if name in _REDUCTIONS:
            for tensor in _unwritten(given):
                self._name(name, tensor)
        _are_written(filled)

    def _see(self, op, args, kwargs):
        """See an operation on unwritten memory; return what made that if its results are, too."""
        if op.composite:  # is dispatched again, in parts
            return None
        if op.func.namespace != "aten":
            _are_written((args, kwargs))
            return None
        if not op.kernel:  # reads no values
            return None
        reads, writes = tensors_of(op, args, kwargs)
        if op.name in _COPIES:
            found = _unwritten(reads)
            _are_written(writes)
            return found[0]._block.unwritten if found and len(found) == len(reads) else None
        if op.packet_name in _COPIES_INTO:
            reads = []
        elif op.name == "where":
            reads = [args[0]]
        elif _may_overwrite(op.name, args, kwargs):
            reads = [tensor for tensor in reads if tensor is not args[0]]
        elif op.packet_name.endswith("_") and op.kernel.bytes is not traffic.written:
            reads = [*writes, *reads]  # it changes its first operand, and so reads it
        if any(not tensor.numel() for tensor in reads):  # with no index, it reads nothing
            reads = []
        for tensor in _unwritten(reads):
            self._name(op.name, tensor)
        _are_written(writes)
        return None

    def _name(self, name, tensor):
        """Warn of a read, once for each line of the program."""
        origin, tensor._block.unwritten = tensor._block.unwritten, None
        line = user_frame.line()
        if user_frame.is_called_from(_MAKES_STATES):
            return
        if line in self._named or tensor._device.current_stream().is_capturing():
            return
        self._named.add(line)
        text = (
            f"{name!r} ({line}) reads memory that nothing has written: a "
            f"{str(tensor.dtype).removeprefix('torch.')} tensor of shape {tuple(tensor.shape)}, "
            f"made by {origin}; on a GPU it holds what was there before"
        )
        self.texts.append(text)
        user_frame.warn(text)


def _may_overwrite(name, args, kwargs):
    """Return whether an operation may overwrite all of its first operand, and so not read it."""
    if name in ("index_reduce", "scatter_reduce"):
        return kwargs.get("include_self") is False
    if name == "bernoulli":
        return len(args) > 1 or "p" in kwargs
    if name in _WITH_BETA:
        return kwargs.get("beta", 1) == 0
    accumulates = kwargs.get("accumulate") or "reduce" in kwargs
    accumulates = accumulates or (name in _PUT and len(args) > 3 and args[3])
    return name in _MAY_OVERWRITE and not accumulates


def _are_written(tensors):
    for tensor in _simulated(tensors):
        tensor._block.unwritten = None


def _holds_unwritten(values):
    for value in values:
        kind = type(value)
        if kind is SimTensor:
            if value._block.unwritten is not None:
                return True
        elif (kind is list or kind is tuple) and _holds_unwritten(value):
            return True
    return False


def _simulated(values):
    return [leaf for leaf in tree_leaves(values) if isinstance(leaf, SimTensor)]


def _unwritten(tensors):
    return [t for t in _simulated(tensors) if t._block.unwritten is not None and t.numel()]
