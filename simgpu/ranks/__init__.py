"""Ranks: the processes of a `torch.distributed` program, as threads of one process.

Start reading in ``spawn.py``. ``process/`` makes a thread look like a process, ``communication/``
is the process group and all that it does, ``pytorch/`` is what PyTorch is told while ranks run.
Imports `simgpu.configure` and what that imports. The modules refer to these notes by name.

Note [One rank at a time]
    Ranks are threads, and a cooperative scheduler (``process/scheduler.py``) runs exactly one of
    them. A rank runs until it needs what another rank has not done yet; then the scheduler switches
    to the next rank that is ready. Nothing happens at the same time, so values, times and errors
    are the same in every run, and no lock is needed. If no rank is ready, the program has a
    deadlock, and the error says who waits for whom.

Note [State of a rank]
    A real rank is a process. What Python and PyTorch keep once a process (environment, random
    states, default group, ...) is saved when a rank stops running and restored before it goes on
    (``process/rank_local_state.py``). Module globals of a program are not: ranks share them.

Note [When communication runs]
    Every rank issues its part of a collective when its program gets there. With the last part the
    values are known and computed at once (``communication/collective.py``). The times are not:
    another collective that a slower rank has yet to issue may use the same links. So collectives
    are scheduled late, when no rank can go on without knowing (``on_stall`` of the scheduler). By
    then all ranks have issued what they can; what runs at the same time is known at the same time,
    and shares links (``communication/links.py``) whichever rank was first.

Note [Kernels beside a collective]
    A kernel is slower while a collective takes multiprocessors and memory bandwidth from it. So
    before its first kernel after a collective, a rank lets the others issue their parts if they can
    (``before_kernel``), but need not wait for them (``must_wait=False``).

Note [What C++ does not ask Python]
    PyTorch's C++ waits for futures and stores by itself; a rank that waited there would never let
    another one run. So futures are complete from the start and whoever first uses their tensors
    waits (``waits_implicitly``), and the store is a dictionary (``process/store.py``).

Note [Tensors in flight]
    Values are computed when the last rank calls, but on a GPU a result is there only after
    ``wait()``. Until then every operation that reads a result or overwrites an input is refused
    (``communication/in_flight.py``): on real GPUs it would give wrong numbers, sometimes.
"""
