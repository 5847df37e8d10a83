"""The chapters on machines with CUDA devices, by the double of `support.cuda_double`.

What ``make test-gpu`` does on real GPUs is done here on GPUs that are not there: the same cells,
the same comparison of outputs by ``sanitise-gpu.cfg``. Two chapters on two machines take a minute;
the rest is for ``make test-double``.
"""

import pytest
from support import strict_nbval
from support.paths import CHAPTERS

STARTUP = """
from support import cuda_double
cuda_double.install_from_environment()
del cuda_double
"""
MACHINES = {
    1: "1:h200:pcie5",
    2: "2:rtx4090:pcie4_staged",
    3: "3:t4:pcie3",
    4: "4:v100:pcie3",
    8: "8:h100:nvlink4",
}
SHORT = ("devices", "auto-parallelism")
NAMES = sorted(path.stem for path in CHAPTERS.glob("*.ipynb"))


def cases():
    for chapter in NAMES:
        for count in MACHINES:
            quick = chapter in SHORT and count in (1, 2)
            yield pytest.param(chapter, count, marks=() if quick else pytest.mark.long)


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


@pytest.mark.parametrize(("chapter", "count"), list(cases()))
def test_the_chapter_runs_and_claims_the_truth(chapter, count, tmp_path):
    done = run(chapter, count, tmp_path)
    assert done.returncode == 0, done.stdout
