"""Finding races: work on the same memory in two streams, of which nothing says which goes first.

Values are computed in the order of the program, so a missing ``wait_event`` never shows in them.
This asks, for every access to a tensor, whether it *must* come after what was done there before.
"""

import os
import sys
import warnings
from collections import deque

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from d2lmini.sim.clocks import Clocks
from d2lmini.sim.histories import Access, History
from d2lmini.sim.ops import lookup
from d2lmini.sim.regions import region

active = None  # the `Detector` while a `check_races` block is open
SMALL = 2**20  # bytes; CUDA's caching allocator keeps smaller and larger blocks apart
_OURS = tuple(os.path.dirname(path) + os.sep for path in (__file__, torch.__file__))


class RaceError(RuntimeError):
    """Two operations use the same memory, one of them writes, and nothing orders them.

    Examples
    --------
    >>> from d2lmini import sim
    >>> issubclass(sim.RaceError, RuntimeError)
    True
    """


class Detector(Clocks):
    """Who used which memory when, and what may get that memory next."""

    def __init__(self, action):
        super().__init__()
        self.action = action
        self.saw_work = False
        self.dropped = deque()  # histories of memory that nobody has any more
        self.reusable = {}  # (stream, is small): the last past use by each stream

    def touch(self, device, name, reads=(), writes=(), peer=None):
        """Check one operation that is now issued for `device`, or copies from it to `peer`."""
        with device.machine.lock:
            self.saw_work = True
            self.check(*self.advance(device, peer), name, reads, writes)

    def check(self, stream, clock, name, reads, writes):
        """Compare an operation's accesses with those before; `stream` is None for the host."""
        frame, race = _caller(), None
        line = _line(frame)
        for tensor, is_write in [(t, False) for t in reads] + [(t, True) for t in writes]:
            history = self.history(tensor)
            if history is None:
                continue
            use = Access(
                stream, clock.get(stream, 0), is_write, name, line, _describe(tensor),
                region(tensor.storage_offset(), tensor.shape, tensor.stride(), tensor.itemsize),
            )  # fmt: skip
            old = history.find_race(use, clock)
            if race is None and old is not None:
                race = history.explain(old, use)
            if stream is not None:
                history.add(use)
        if race is not None and self.action == "raise":
            raise RaceError(race)
        if race is not None:
            warnings.warn_explicit(race, RuntimeWarning, frame.f_code.co_filename, frame.f_lineno)

    def history(self, tensor):
        """Return the history of a tensor's memory; None if nobody can race for it."""
        if tensor.numel() == 0:
            return None
        memory = getattr(tensor, "_block", None)
        if memory is None:  # a host tensor
            memory = tensor.untyped_storage()
            if memory.nbytes() < tensor.nbytes or not getattr(memory, "_sim_pinned", False):
                return None  # without values, or in memory for which the host always waits
        history = getattr(memory, "_sim_history", None)
        if history is None or history.detector is not self:
            history = memory._sim_history = History(self)
        return history

    def keep_for(self, tensor, stream):
        """Let a tensor's memory, when it is dropped, not be reused before `stream` is done."""
        history = self.history(tensor)
        if history is not None and stream is not history.stream:
            history.recorded.add(stream)

    def allocate(self, block, device):
        """Begin a block's history: its memory may be what tensors of its stream have dropped."""
        with device.machine.lock:
            stream, is_small = self.stream_for(device), block.num_bytes <= SMALL
            history = block._sim_history = History(self, stream, is_small)
            self.collect()
            for use in self.reusable.get((stream, is_small), {}).values():
                if use.tick > self.host.get(use.stream, 0):
                    history.uses[use.stream, None, True] = use

    def collect(self):
        """Keep the last uses of dropped memory, for the stream whose tensors may get it next."""
        while self.dropped:
            history = self.dropped.popleft()
            if history.stream is None:
                continue  # made before the `check_races` block: nobody knows in which stream
            reusable = self.reusable.setdefault((history.stream, history.is_small), {})
            for use in history.uses.values():
                last = reusable.get(use.stream)
                if last is None or last.tick < use.tick:
                    reusable[use.stream] = use._replace(region=None, writes=True, is_past=True)


class check_races(TorchDispatchMode):  # noqa: N801  (used like a function)
    """Look for races on simulated GPUs inside a ``with`` block.

    Values on simulated GPUs come out right whatever is forgotten. On a real GPU, a forgotten
    ``wait_event`` gives wrong ones, sometimes. Inside the block, an operation is refused that

    - reads what another stream writes, or overwrites what another stream writes or reads, unless
      events, ``wait_stream``, copies between GPUs or waits of the host order the two;
    - uses memory with which another stream need not be done since a tensor that had it was
      dropped. Such memory may go to any later tensor that is made in *the stream in which the
      dropped one was made* (if both have up to 1 MiB, or both more); of other streams the caching
      allocator knows only those that ``tensor.record_stream(stream)`` has named;
    - reads or overwrites, on the host, pinned memory that a ``non_blocking`` copy still uses.

    Only the program counts, not the clock: work that must be over by now, but for which nobody has
    waited, races. Two views of one tensor that share no byte do not. A non-blocking copy *from*
    ordinary memory has read it when it returns, but need not have arrived.

    What was issued before the block counts as done, and memory that was taken before it is not
    given to others. Threads count as one: what one of them issues later comes later. Of what the
    host does, PyTorch's operations in the thread that opened the block are seen (not ``numpy()``,
    nor printing), where the machine keeps values. Real GPUs are not seen; for these there is
    ``TORCH_CUDA_SANITIZER=1``.

    Parameters
    ----------
    action : str
        ``"raise"``, or ``"warn"``: a `RuntimeWarning` for each race, and the program goes on.

    Raises
    ------
    RaceError
        At that operation of the two which the program issues later; the message names both.
    ValueError
        If there is no such `action`.
    RuntimeError
        If such a block is open already; at the end of the block, if no simulated GPU did anything.

    Examples
    --------
    >>> import torch
    >>> from d2lmini import sim
    >>> (device,) = sim.configure(1, gpu="v100")
    >>> side = sim.Stream(device)
    >>> with sim.check_races():  # doctest: +ELLIPSIS
    ...     x = torch.ones(2, 2, device=device)
    ...     with side:
    ...         y = x + 1
    Traceback (most recent call last):
    d2lmini.sim.races.RaceError: race: 'add' in stream 1 of sim:0 (line 4) reads a float32 tensor...
    >>> with sim.check_races():
    ...     x = torch.ones(2, 2, device=device)
    ...     side.wait_stream(sim.current_stream(device))
    ...     with side:
    ...         y = x + 1
    """

    def __init__(self, action: str = "raise"):
        if action not in ("raise", "warn"):
            raise ValueError(f"action is {action!r}; give 'raise' or 'warn'")
        super().__init__()
        self.action = action

    def __enter__(self):
        global active
        if active is not None:
            raise RuntimeError("races are looked for already; leave out the inner check_races()")
        active = Detector(self.action)
        return super().__enter__()

    def __exit__(self, exc_type, *args):
        global active
        detector, active = active, None
        super().__exit__(exc_type, *args)
        if exc_type is None and not detector.saw_work:
            raise RuntimeError(
                "check_races() saw no work of a simulated GPU: let some run inside the block, on "
                "devices of gpus(k, gpu='v100'); real GPUs have TORCH_CUDA_SANITIZER=1"
            )

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        """Run one operation; if it is the host's own, look at the pinned memory it uses."""
        kwargs = kwargs or {}
        op = lookup(func)
        goal = kwargs.get("device")
        if active is not None and op.kernel and (goal is None or goal.type == "cpu"):
            reads, writes = tensors_of(op, args, kwargs)
            if all(t.device.type == "cpu" and t.layout is torch.strided for t in reads + writes):
                reads, writes = ([t for t in ts if active.history(t)] for ts in (reads, writes))
                if reads or writes:
                    name = "item" if op.name == "_local_scalar_dense" else op.name
                    active.check(None, active.host, name, reads, writes)
        return func(*args, **kwargs)


def tensors_of(op, args, kwargs):
    """Return the tensors of whose values one call reads some, and those that it changes."""
    reads, writes = [], []
    for i, argument in enumerate(op.func._schema.arguments):
        value = args[i] if i < len(args) else kwargs.get(argument.name)
        found = writes if i in op.changed else reads
        found += [leaf for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor)]
    if op.packet_name.endswith("_like") or op.packet_name.startswith("new_"):
        reads = []  # asks for its shape alone
    return reads, writes


def _describe(tensor):
    return f"{str(tensor.dtype).removeprefix('torch.')} tensor of shape {tuple(tensor.shape)}"


def _caller():
    """Return the frame of the program that is checked."""
    frame = sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_OURS):
        frame = frame.f_back
    return frame


def _line(frame):
    name = frame.f_code.co_name
    return f"line {frame.f_lineno}" + ("" if name.startswith("<") else f" of {name}")
