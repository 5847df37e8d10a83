"""Ranks: the processes of a `torch.distributed` program, as threads of one process.

Start reading in ``spawn.py``. One rank runs at a time and hands a baton on when it has to wait
(``baton.py``, ``own_state.py``: what belongs to one rank). They communicate through a process group
(``group.py``, ``functional.py``), whose calls meet (``meeting.py``): values (``values.py``), time
(``settling.py``, with ``costs.py`` and the ``wires.py`` of a cluster), and what may not be touched
meanwhile (``under_way.py``, ``work.py``). One may stand for many (``folding.py``). All private
names of PyTorch stand in ``private.py``. Imports `simgpu.configure` and what that imports;
nothing below imports it.
"""
