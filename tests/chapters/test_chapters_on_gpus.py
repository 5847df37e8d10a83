"""The chapters on machines with CUDA devices, by the double of `support.cuda_double`.

What ``make test-gpu`` does on real GPUs is done here on GPUs that are not there: the same cells,
the same comparison of outputs by ``sanitise-gpu.cfg``.
"""

import re

import nbformat
import pytest
from support import strict_nbval
from support.paths import CHAPTERS

pytestmark = [pytest.mark.exhaustive, pytest.mark.timeout(600)]

STARTUP = """
from support import cuda_double
cuda_double.install_from_environment()
del cuda_double
"""
MACHINES = {  # in the order of the runs, should there be no time for all
    2: "2:rtx4090:pcie4_staged",
    1: "1:h200:pcie5",
    8: "8:h100:nvlink4",
    4: "4:v100:pcie3",
    3: "3:t4:pcie3",
}
# What asks for real GPUs, if there are any; a chapter without it is the same on every machine.
ASKS = re.compile(r"\b(gpus|try_gpu|try_all_gpus|usable_gpus|launch)\(")


def cases():
    """Return ``(number of GPUs, chapter)``: all machines for chapters that ask, else the first."""
    first, *others = MACHINES
    names = sorted(path.stem for path in CHAPTERS.glob("*.ipynb"))
    asking = [name for name in names if ASKS.search(code(name))]
    return [(first, name) for name in names] + [(n, name) for n in others for name in asking]


def code(chapter):
    """Return all code of a chapter."""
    cells = nbformat.read(CHAPTERS / f"{chapter}.ipynb", 4).cells
    return "\n".join(cell.source for cell in cells if cell.cell_type == "code")


def run(chapter, count, folder):
    """Run one chapter on a machine with `count` GPUs; return the process."""
    return strict_nbval.run(
        CHAPTERS / f"{chapter}.ipynb",
        folder,
        STARTUP,
        "sanitise-gpu.cfg",
        D2LMINI_DOUBLE=MACHINES[count],
        D2LMINI_GPUS="auto",
        SIMGPU_FORCE="",
        OMP_NUM_THREADS="1",
    )


@pytest.mark.parametrize(("count", "chapter"), cases())
def test_the_chapter_runs_and_claims_the_truth(chapter, count, tmp_path):
    done = run(chapter, count, tmp_path)
    assert done.returncode == 0, done.stdout
