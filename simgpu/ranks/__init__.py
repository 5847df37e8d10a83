"""Ranks: the processes of a `torch.distributed` program, as threads of one process.

Start reading in ``spawn.py``. ``process/`` makes a thread look like a process, ``communication/``
is the process group and everything behind it, ``pytorch/`` patches PyTorch while ranks run. Imports
`simgpu.configure` and the layers below it. The modules refer to these notes by name.

Note [One rank at a time]
    Ranks are threads, and a cooperative scheduler (``process/scheduler.py``) runs exactly one of
    them. A rank runs until it needs something that another rank has not done yet; then the
    scheduler switches to the next rank that is ready. Ranks never run concurrently, so values,
    times and errors are the same in every run, and no locks are needed. If no rank is ready, the
    program has a deadlock, and the error says which rank waits for which.

Note [State of a rank]
    A real rank is a process. Per-process state of Python and PyTorch (environment, random states,
    default group, ...) is saved when a rank stops running and restored before it resumes
    (``process/rank_local_state.py``).

Note [Own modules]
    Programs and libraries keep what belongs to a process in globals of modules and in attributes of
    classes: the rank, groups, caches, tables of classes by name. So each rank imports its own copy
    of every module that the caller had not imported: ``process/own_modules.py`` exchanges the
    entries of `sys.modules` when another rank resumes. What cannot be copied all ranks share, by
    the rule in ``process/shared_modules.py``.

Note [When communication runs]
    Every rank issues its part of a collective when its program gets there. When the last part is
    issued, the values are computed immediately (``communication/collective.py``). The times are not
    known yet: another collective that a slower rank has yet to issue may use the same links. So
    collectives are scheduled late, when every rank waits for an unknown time (``on_stall`` of the
    scheduler). By then all ranks have issued what they can, so that collectives that run at the
    same time share links (``communication/links.py``), whatever the order in which ranks ran.

Note [Kernels beside a collective]
    A kernel is slower while a collective takes multiprocessors and memory bandwidth from it. So
    before its first kernel after a collective, a rank yields for the others to issue their parts
    (``before_kernel``), but resumes even if they cannot (``must_wait=False``).

Note [Waits in C++]
    PyTorch's C++ waits for futures and stores without calling Python; a rank that blocked there
    would never yield. So futures are complete from the start and the first use of their tensors
    waits (``waits_implicitly``), and the store is a dictionary (``process/store.py``).

Note [Tensors in flight]
    Values are computed when the last rank calls, but on a GPU a result is ready only after
    ``wait()``. Until then, operations that read a result or overwrite an input raise an error
    (``communication/in_flight.py``): on real GPUs they would sometimes give wrong numbers.
"""
