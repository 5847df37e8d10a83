"""Ranks: the processes of a `torch.distributed` program, as threads of one process.

Start reading in ``spawn.py`` and ``run_ranks.py``. ``process/`` makes a thread look like a process,
``communication/`` is the process group and everything behind it, ``pytorch/`` patches PyTorch while
ranks run. Imports `simgpu.configuration` and the layers below it. The modules refer to these notes
by name.

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
    classes: the rank, groups, caches, tables of classes by name. So each rank has its own, in one
    of three ways (``process/modules/``).

    What a rank imports is its own copy: ``own_modules.py`` exchanges the entries of `sys.modules`
    when another rank resumes, and the locks of modules that are just being imported. Objects travel
    between ranks pickled, so each rank unpickles its own classes.

    What the caller has imported, such as a notebook's libraries, exists once, since the caller's
    functions refer to it; a rank that imported it again would have classes of another identity. Of
    the user's modules, and of installed packages that use PyTorch, ranks have their own values
    (``own_values.py``): globals, attributes of classes, and what containers and instances of
    their classes hold, which begin as the caller's; and caches of functions, which begin empty. In
    the caller's ``__main__`` only globals and attributes of classes are a rank's own: a notebook
    may let its ranks append to one list. Tensors and arrays are shared, as long as no rank binds
    another to the name. In a container of more than 10,000 entries, only changes of its length
    are seen.

    What a process can load only once all ranks share, by the rule in ``shared_modules.py``. If a
    script or a library assigns to names of PyTorch or of the standard library, each rank has its
    own value of these (``patched_names.py``), if it assigns before it first waits for another rank.
    After that, only the names are compared to which the code of the user's own modules assigns
    (``stored_names.py`` finds them in its bytecode; strings count where it calls `setattr` or
    `mock.patch`): also what a rank replaces for a while is its own. Another assignment to which
    ranks have come differently raises an error when a rank ends. Recording all public names takes
    12 ms, and comparing them 2 ms, so `simgpu run` does it, and `spawn`, which often runs for less
    than that, does not. It compares when a rank first waits, when it waits after it has imported
    more, and when it ends; the user's names, 0.04 µs each, at every wait.

    So ranks stay threads, and closures still reach the caller's objects. The price is that each
    rank runs the code of the libraries that it imports, which takes time and memory for each.

Note [When communication runs]
    Every rank issues its part of a collective when its program gets there. When the last part is
    issued, the values are computed immediately (``communication/collective.py``). The times are not
    known yet: another collective that a slower rank has yet to issue may use the same links. So
    collectives are scheduled late, when every rank waits for an unknown time (``on_stall`` of the
    scheduler). By then all ranks have issued what they can, so that collectives that run at the
    same time share links (``communication/links.py``), whatever the order in which ranks ran.

Note [Queues of messages]
    On a GPU a message is a kernel in a stream, and whatever is called later in that stream waits
    until it has met its counterpart. So a collective or message is scheduled when it is first in
    the streams of all its ranks (``communication/order/queues.py``, which says which stream PyTorch
    takes). Messages that cross outside a batch then never become first, and no rank can go on.
    Messages of host tensors, which gloo carries, have no such queue.

Note [What NCCL refuses]
    A program that runs here should run on NCCL, and the reverse. So the arguments of every call are
    checked by the rules of PyTorch's NCCL backend, which gets addresses without strides and ignores
    tags (``communication/checks/``); tensors on the host follow gloo. What NCCL takes but turns
    into wrong numbers is refused as well.

Note [Kernels beside a collective]
    A kernel is slower while a collective takes multiprocessors and memory bandwidth from it. So
    before its first kernel after a collective, a rank yields for the others to issue their parts
    (its device's `Sink`), but resumes even if they cannot (``must_wait=False``).

Note [Waits in C++]
    PyTorch's C++ waits for futures and stores without calling Python; a rank that blocked there
    would never yield. So futures are complete from the start and the first use of their tensors
    waits (``waits_implicitly``), and the store is a dictionary (``process/store.py``), as are the
    stores that a program makes (``process/own_stores.py``). A wait with a time limit ends when no
    rank can go on: only then is it certain that nothing happens before (`deadline`).

Note [Tensors in flight]
    Values are computed when the last rank calls, but on a GPU a result is ready only after
    ``wait()``. Until then, operations that read a result or overwrite an input raise an error
    (``communication/waiting/in_flight.py``): on real GPUs they would sometimes give wrong numbers.
    Which *stream* has waited only the race detector knows, to which a collective is one more
    operation of its stream (`Detector.communicate`).
"""
