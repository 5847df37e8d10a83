"""The chapters on machines with CUDA devices, by the double of `support.cuda_double`.

What ``make test-gpu`` does on real GPUs is done here on GPUs that are not there: the same cells,
the same comparison of outputs by ``sanitise-gpu.cfg``.
"""

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
NAMES = sorted(path.stem for path in CHAPTERS.glob("*.ipynb"))


def run(chapter, count, folder):
    """Run one chapter on a machine with `count` GPUs; return the process."""
    return strict_nbval.run(
        CHAPTERS / f"{chapter}.ipynb",
        folder,
        STARTUP,
        "sanitise-gpu.cfg",
        D2LMINI_DOUBLE=MACHINES[count],
        D2LMINI_GPUS="auto",
        OMP_NUM_THREADS="1",
    )


@pytest.mark.parametrize("chapter", NAMES)
@pytest.mark.parametrize("count", MACHINES)
def test_the_chapter_runs_and_claims_the_truth(chapter, count, tmp_path):
    done = run(chapter, count, tmp_path)
    assert done.returncode == 0, done.stdout
