"""`check_races`: what is done in its block is shown to the detector of races."""

from contextlib import nullcontext

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from simgpu.backend.conj_neg_bits import compute
from simgpu.backend.ops import lookup, tensors_of
from simgpu.clock.current import refuse_in_a_rank
from simgpu.races import detector


class HostOperations(TorchDispatchMode):
    """Shows the detector what this thread's host does with pinned memory."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        """Run one operation; if it is the host's own, look at the pinned memory it uses."""
        kwargs = kwargs or {}
        op, goal, active = lookup(func), kwargs.get("device"), detector.active
        if not types and op.kernel and active and (goal is None or goal.type == "cpu"):
            reads, writes = tensors_of(op, args, kwargs)
            if all(t.device.type == "cpu" and t.layout is torch.strided for t in reads + writes):
                reads, writes = ([t for t in ts if active.history(t)] for ts in (reads, writes))
                if reads or writes:
                    name = "item" if op.name == "_local_scalar_dense" else op.name
                    active.check(None, active.host, name, reads, writes)
        tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        return compute(func, args, kwargs, tensors)


def in_a_rank():
    """Return what a rank's thread runs in: looks for races if a block is open around the ranks."""
    return nullcontext() if detector.active is None else HostOperations()


class check_races(HostOperations):  # noqa: N801  (used like a function)
    """Look for races on simulated GPUs inside a ``with`` block.

    Values on simulated GPUs come out right whatever is forgotten. On a real GPU, a forgotten
    ``wait_event`` gives wrong ones, sometimes. Inside the block, an operation is refused that

    - reads what another stream writes, or overwrites what another stream writes or reads, unless
      events, ``wait_stream``, copies between GPUs or waits of the host order the two;
    - uses memory of a dropped tensor that another stream may still use. Such memory may go to any
      later tensor that is made in *the same stream as the dropped one* (if both have up to 1 MiB,
      or both more): the caching allocator waits for no other stream, except those that
      ``tensor.record_stream(stream)`` has named;
    - reads or overwrites, on the host, pinned memory that a ``non_blocking`` copy still uses.

    Only the program counts, not the clock: work that must be over by now, but for which nobody has
    waited, races. Two views of one tensor that share no byte do not. A non-blocking copy *from*
    ordinary memory has read it when it returns, but need not have arrived.

    What was issued before the block counts as done, and memory that was taken before it is not
    given to others. Threads count as one: what one of them issues later comes later. Of what the
    host does, PyTorch's operations in the thread that opened the block are seen (not ``numpy()``,
    nor printing), where the machine keeps values. A block around `spawn` sees all its ranks, and
    takes their hosts for one; a rank that does not wait for a collective is refused in any case.
    Real GPUs are not seen; for these there is ``TORCH_CUDA_SANITIZER=1``.

    Parameters
    ----------
    action : str
        ``"raise"``, or ``"warn"``: a `RuntimeWarning` for each race, and the program goes on.
    nested : bool
        True: may stand inside another such block, which sees nothing meanwhile, and need not see
        any work itself.

    Raises
    ------
    RaceError
        At that operation of the two which the program issues later; the message names both.
    ValueError
        If there is no such `action`.
    RuntimeError
        In a rank of `spawn`. Unless `nested`, also if such a block is open already, and at the end
        of the block, if no simulated GPU did anything.

    Examples
    --------
    >>> import torch
    >>> import simgpu as sim
    >>> (device,) = sim.configure(1, gpu="v100")
    >>> side = sim.Stream(device)
    >>> with sim.check_races():  # doctest: +ELLIPSIS
    ...     x = torch.ones(2, 2, device=device)
    ...     with side:
    ...         y = x + 1
    Traceback (most recent call last):
    simgpu.races.detector.RaceError: race: 'add' in stream 1 of sim:0 (line 4) reads...
    >>> with sim.check_races():
    ...     x = torch.ones(2, 2, device=device)
    ...     side.wait_stream(sim.current_stream(device))
    ...     with side:
    ...         y = x + 1
    """

    def __init__(self, action: str = "raise", nested: bool = False):
        if action not in ("raise", "warn"):
            raise ValueError(f"action is {action!r}; give 'raise' or 'warn'")
        super().__init__()
        self.action, self.nested = action, nested

    def __enter__(self):
        refuse_in_a_rank("check_races()", "open the block around sim.spawn(), for all ranks")
        self.outer = detector.active
        if self.outer is not None and not self.nested:
            raise RuntimeError("races are looked for already; leave out the inner check_races()")
        detector.active = detector.Detector(self.action)
        # The outer block shows what the host does to the detector that is active.
        return self if self.outer is not None else super().__enter__()

    def __exit__(self, exc_type, *args):
        closed, detector.active = detector.active, self.outer
        if self.outer is None:
            super().__exit__(exc_type, *args)
        if exc_type is None and not closed.saw_work and not self.nested:
            raise RuntimeError(
                "check_races() saw no work of a simulated GPU: let some run inside the block, on "
                "devices of gpus(k, gpu='v100'); real GPUs have TORCH_CUDA_SANITIZER=1"
            )
