"""`check_races`: a block whose operations are passed to the race detector."""

from contextlib import nullcontext

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from simgpu.backend.conj_neg_bits import compute
from simgpu.clock.current import refuse_in_a_rank
from simgpu.kernels.facts import lookup, tensors_of
from simgpu.races import detector


class HostOperations(TorchDispatchMode):
    """Passes the pinned memory that host operations of this thread use to the race detector."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        """Run one operation; if it is a host operation, check the pinned memory it uses."""
        kwargs = kwargs or {}
        op, target, active = lookup(func), kwargs.get("device"), detector.active
        if not types and op.kernel and active and (target is None or target.type == "cpu"):
            reads, writes = tensors_of(op, args, kwargs)
            if all(t.device.type == "cpu" and t.layout is torch.strided for t in reads + writes):
                reads, writes = ([t for t in ts if active.history(t)] for ts in (reads, writes))
                if reads or writes:
                    name = "item" if op.name == "_local_scalar_dense" else op.name
                    active.check(None, active.host, name, reads, writes)
        tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        return compute(func, args, kwargs, tensors)


def in_a_rank():
    """Return the context for a rank's thread; it checks for races if a block is open outside."""
    return nullcontext() if detector.active is None else HostOperations()


class check_races(HostOperations):  # noqa: N801  (used like a function)
    """Look for races on simulated GPUs inside a ``with`` block.

    Values on simulated GPUs are right even if a wait is missing. On a real GPU, a missing
    ``wait_event`` sometimes gives wrong values. Inside the block, it is an error if an operation

    - reads what another stream writes, or overwrites what another stream writes or reads, unless
      events, ``wait_stream``, copies between GPUs or waits of the host order the two;
    - uses memory of a freed tensor that another stream may still use. Such memory may go to any
      later tensor allocated in *the same stream as the freed one* (if both have up to 1 MiB, or
      both more): the caching allocator waits for no other stream, except those that
      ``tensor.record_stream(stream)`` has named;
    - reads or overwrites, on the host, pinned memory that a ``non_blocking`` copy still uses.

    Only the program counts, not the clock: work that has ended on the clock, but that nothing has
    waited for, races. Two views of one tensor that share no byte do not. A non-blocking copy *from*
    pageable memory has read it when it returns, but need not have arrived.

    Work issued before the block counts as done, and memory allocated before it counts as never
    reused. Threads are not told apart: what one of them issues later comes later. On the host,
    PyTorch's operations in the thread that opened the block are checked (not ``numpy()``, nor
    printing), if the machine keeps values. Real GPUs are not checked; use
    ``TORCH_CUDA_SANITIZER=1`` for them.

    A block around `spawn` checks all its ranks. A collective begins after the work that was in the
    current stream when it was called. Asynchronous ones run in a stream of their group, as with
    NCCL: ``work.wait()`` makes the current stream wait, and no other. So does the first use of what
    a future holds. A result that no stream has waited for is an error in any case.

    Parameters
    ----------
    action : str
        ``"raise"``, or ``"warn"`` for a `RuntimeWarning` at each race instead of an error.
    nested : bool
        If True, the block may be inside another one, which sees nothing meanwhile, and may end
        without having seen any work.

    Raises
    ------
    RaceError
        At the later of the two operations in program order; the message names both.
    ValueError
        If `action` is neither ``"raise"`` nor ``"warn"``.
    RuntimeError
        In a rank of `spawn`. Unless `nested`, also if another block is open, or if the block ends
        and no simulated GPU did any work in it.

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
            raise RuntimeError("a check_races() block is open; leave out the inner check_races()")
        detector.active = detector.Detector(self.action)
        # The outer block passes host operations to whichever detector is active.
        return self if self.outer is not None else super().__enter__()

    def __exit__(self, exc_type, *args):
        closed, detector.active = detector.active, self.outer
        if self.outer is None:
            super().__exit__(exc_type, *args)
        if exc_type is None and not closed.saw_work and not self.nested:
            raise RuntimeError(
                "check_races() saw no work of a simulated GPU; run some inside the block, on "
                "devices of gpus(k, gpu='v100'), or use TORCH_CUDA_SANITIZER=1 for real GPUs"
            )
