"""The launcher ``simgpu run``: a script for ``torchrun``, on simulated GPUs.

::

    simgpu run --nproc-per-node 8 --gpu h100 --link nvlink4 script.py args

takes the place of ``torchrun --nproc-per-node 8 script.py args`` for a script that takes its device
from ``torch.accelerator.current_accelerator()`` and leaves the backend of ``init_process_group``
out. ``--nnodes 4 --network ndr`` makes it four such nodes; of many ranks that do the same, one is
enough (``--shapes-only --ranks 0``). At the end it says on what the time went; all its numbers are
simulated, and ``summary.py`` defines them.

Every rank runs the script from its first line as ``__main__``, in a thread of its own
(`simgpu.spawn`). Modules that the script imports are shared by all ranks, and signal handlers
cannot be set. Ranks that seed nothing draw different numbers, the same ones in every run.

Start reading in ``__main__.py``. ``script.py`` runs the script and says what failed on which rank,
``cuda.py`` refuses CUDA, ``steps.py`` finds the steps of a training, ``shares.py`` and
``summary.py`` say what limits them, ``page.py`` writes the timeline. Of the folders of
`simgpu` this is the only one that stands above `simgpu.timeline`; none of them imports it.
"""
