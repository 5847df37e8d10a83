"""The launcher ``simgpu run``: runs a ``torchrun`` script on simulated GPUs.

::

    simgpu run --nproc-per-node 8 --gpu h100 --link nvlink4 script.py args

replaces ``torchrun --nproc-per-node 8 script.py args``. A script may say ``cuda`` and ``nccl``, and
runs as it is (``cuda/``), or take its device from ``torch.accelerator.current_accelerator()``.
``--nnodes 4 --network ndr`` simulates four such nodes; of many identical ranks, one is enough
(``--shapes-only --ranks 0``). At the end the launcher prints where the time went; all its numbers
are simulated, and ``summary.py`` defines them.

Every rank runs the script from its first line as ``__main__``, in its own thread (`simgpu.spawn`).
A script that starts its ranks itself, by `torch.multiprocessing.spawn` or as ``Process``, runs once
if ``--nproc-per-node`` is left out. `time.time` and the like give the clock of the simulated host.
Each rank imports modules for itself, except for those that a process can load only once (Note [Own
modules] of `simgpu.ranks`). Ranks cannot set signal handlers. Without a seed, each rank draws
different random numbers, the same ones in every run.

Start reading in ``command.py``. ``options.py`` lists the options, ``script.py`` runs a script or a
module, ``torchrun.py`` and ``processes.py`` start its ranks, ``failures.py`` reports which rank
failed, ``simulated_time.py`` replaces clocks, ``faults.py`` kills and slows down ranks,
``loader/`` lets them wait for the script's data, ``cuda/`` lets scripts say `torch.cuda`,
``steps.py`` finds the training steps, ``shares.py`` and ``summary.py`` find what limits them,
``page.py`` writes the timeline. Of the other folders of `simgpu`, only
``check`` and ``plan`` import this one.
"""
