"""Collectives and messages between ranks: values, times, and tensors in flight.

Start reading in ``process_group.py``, which `torch.distributed` calls, and ``collective.py``, which
collects the calls of several ranks, or ``messages.py`` for messages. ``checks/`` refuses arguments
that NCCL refuses. ``world.py`` holds the state that all ranks share;
``communication_scheduler.py`` finds when communication runs, on the ``links.py`` of a cluster and
at the ``costs.py`` of NCCL; ``values.py`` computes results; ``work.py`` defines the handles on
which programs wait, ``in_flight.py`` checks tensors until then. One rank can represent many
(``folding.py``). The notes of `simgpu.ranks` explain the design.
"""
