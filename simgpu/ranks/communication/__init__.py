"""Collectives and messages between ranks: values, times, and tensors in flight.

Start reading in ``process_group.py``, which `torch.distributed` calls. It describes each call
(``call.py``, ``messages.py`` those of messages) to ``world.py``, which holds the state that all
ranks share: ``launch.py`` charges the host, ``matching.py`` finds the calls of other ranks that
belong to it, ``collective.py`` is what they make together. ``checks/`` refuses arguments that NCCL
refuses, ``order/`` finds what waits for ever. ``communication_scheduler.py`` finds when
communication runs, on the ``links.py`` of a cluster and at the ``costs.py`` of NCCL; ``values.py``
computes results; ``waiting/`` has the handles on which programs wait, and checks tensors until
then. ``flight_recorder/`` keeps the last calls of ranks for PyTorch's analyser. One rank can
represent many (``folding.py``). The notes of `simgpu.ranks` explain the design.
"""
