"""Check tensors of communication in flight: Note [Tensors in flight] of `simgpu.ranks`."""

from dataclasses import dataclass

import torch

from simgpu import user_frame
from simgpu.backend import tensor as backend
from simgpu.backend.tensor import SimTensor
from simgpu.kernels.facts import tensors_of
from simgpu.races import detector as races
from simgpu.races.regions import overlap, region
from simgpu.ranks.process.scheduler import RanksError


@dataclass(eq=False)
class TensorUse:
    """One use of a tensor by a collective or a message in flight."""

    work: object
    tensor: SimTensor
    writes: bool

    @property
    def region(self):
        """The bytes of the tensor."""
        return _region(self.tensor)


class InFlight:
    """The memory in use by communication; checks every operation on simulated tensors."""

    def __init__(self):
        self._uses = {}  # id of a block -> uses, whose tensors keep the block alive

    def add(self, work, reads, writes) -> None:
        """Add the tensors of a work that has been issued."""
        for tensors, is_write in ((reads, False), (writes, True)):
            for tensor in tensors:
                if tensor.numel():
                    use = TensorUse(work, tensor, is_write)
                    self._uses.setdefault(id(tensor._block), []).append(use)
                    work.uses.append(use)
        if self._uses:
            backend.watch = self._watch

    def remove(self, work) -> None:
        """Remove the tensors of a work on which the program has waited."""
        for use in work.uses:
            key = id(use.tensor._block)
            remaining = [other for other in self._uses.get(key, ()) if other is not use]
            if remaining:
                self._uses[key] = remaining
            else:
                self._uses.pop(key, None)
        work.uses = []
        if not self._uses:
            backend.watch = None

    def writers(self, tensor) -> list:
        """Return the works that write to the storage of a tensor."""
        uses = self._uses.get(id(tensor._block), ())
        return [use.work for use in uses if use.writes]

    def _watch(self, op, args, kwargs):
        for value in (*args, *kwargs.values()) if kwargs else args:
            if type(value) is SimTensor:
                if id(value._block) in self._uses:
                    self._check_operation(op, args, kwargs or {})
                    return
            elif isinstance(value, list | tuple) and any(
                type(v) is SimTensor and id(v._block) in self._uses for v in value
            ):
                self._check_operation(op, args, kwargs or {})
                return

    def _check_operation(self, op, args, kwargs):
        if not op.kernel or op.composite or op.func.namespace == "_c10d_functional":
            return  # reads no values; is dispatched again in parts; is itself communication
        reads, writes = tensors_of(op, args, kwargs)
        self.check(f"'{op.name}'", reads, writes)

    def check(self, name, reads, writes, stream=None, batch=None) -> None:
        """Raise an error if an operation conflicts with communication in flight, or wait for it.

        Work on `stream` runs after communication in flight there, and cannot conflict with it,
        unless both are in one `batch`.
        """
        for tensors, is_write in ((reads, False), (writes, True)):
            for tensor in tensors:
                if not isinstance(tensor, SimTensor) or not tensor.numel():
                    continue
                for use in list(self._uses.get(id(tensor._block), ())):
                    if (
                        (is_write or use.writes)
                        and not _is_ordered(use.work, stream, batch)
                        and overlap(use.region, _region(tensor))
                    ):
                        self._conflict(name, use, is_write)

    def _conflict(self, name, use, is_write):
        work = use.work
        if work.waits_implicitly:
            work.wait()
            if races.active is not None:  # in which streams C++ has waited is not known
                races.active.assume_done(work, work.stream)
            return
        if use.writes:
            what = f"{'overwrites' if is_write else 'reads'} the result of"
        else:
            what = "changes a tensor that is still read by"
        raise RanksError(
            f"rank {work.rank}: {name} ({user_frame.line()}) {what} {work.name} ({work.line}) "
            "before its wait(); call wait() on the work first"
        )


def _is_ordered(work, stream, batch):
    """Return whether work on a stream runs after one that is in flight."""
    return stream is work.stream is not None and (batch is None or batch is not work.batch)


def _region(tensor):
    return region(tensor.storage_offset(), tensor.shape, tensor.stride(), tensor.itemsize)


def flatten(values) -> list[torch.Tensor]:
    """Return the tensors in nested lists."""
    if isinstance(values, torch.Tensor):
        return [values]
    return [tensor for value in values for tensor in flatten(value)]
