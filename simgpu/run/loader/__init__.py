"""The script's data loader beside simulated GPUs: ``simgpu run --loader measured``.

A `torch.utils.data.DataLoader` really runs, in the script's process or in its workers, at the speed
of this machine, while a simulated step takes the time of other GPUs. So what the script really
waits for a batch says nothing. What counts is how long a batch takes to make:

- Without workers the host makes it, in ``__next__``, and launches nothing meanwhile. The seconds
  that this really takes, with collating and pinning, pass on the rank's simulated host.
- With workers each batch brings along the seconds that its worker needed for it, and the thread
  that pins memory for pinning it. ``supply.py`` lets the workers make these batches in simulated
  time, as many ahead as the loader prefetches, and the host waits for those that are late. The host
  also pays what ``__next__`` itself computes, such as drawing indices, and at the beginning of an
  epoch what starting workers takes.

A worker counts as if it had a core of this machine to itself: the time in which it was ready to run
and other programs, the simulator or other ranks had the core is left out, where Linux tells it. In
reality the ranks of a node have workers of their own, which share the cores of its processors.

Not counted are what a worker's own threads do beside making the next batch (sending tensors that
are not in shared memory yet), importing in workers that are spawned, and batches that other
threads than the rank's take. What is measured differs a little in every run; ``--loader 0.8ms``,
where each batch takes that long to make, does not.

Start reading in ``lane.py``, which replaces the functions of PyTorch. ``worker.py`` runs in the
workers, ``stopwatch.py`` measures, ``choice.py`` reads the option, ``report.py`` says it.
"""
