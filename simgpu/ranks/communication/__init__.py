"""Collectives and messages between ranks: values, times, and what must not be touched meanwhile.

Start reading in ``process_group.py``, which `torch.distributed` calls, and ``collective.py``, where
the calls of several ranks come together. ``world.py`` has what all ranks share;
``communication_scheduler.py`` finds when communication runs, on the ``links.py`` of a cluster and
at the ``costs.py`` of NCCL; ``values.py`` computes what comes out; ``work.py`` is what a program
waits for, ``in_flight.py`` what it must not touch before. One rank can stand for many
(``folding.py``). The design is in the notes of `simgpu.ranks`.
"""
