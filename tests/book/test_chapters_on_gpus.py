"""The chapters on machines with CUDA devices, by the double of `support.cuda_double`.

What ``make test-gpu`` does on real GPUs is done here on GPUs that are not there: the same cells,
the same comparison of outputs by ``sanitise-gpu.cfg``. Two chapters on two machines take a minute;
the rest is for ``make test-double``.
"""

import os
import subprocess
import sys

import pytest
from support.paths import PYTHONPATH, ROOT

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
CHAPTERS = sorted(path.stem for path in (ROOT / "chapters").glob("*.ipynb"))


def cases():
    for chapter in CHAPTERS:
        for count in MACHINES:
            quick = chapter in SHORT and count in (1, 2)
            yield pytest.param(chapter, count, marks=() if quick else pytest.mark.long)


def run(chapter, count, folder):
    """Run one chapter under strict nbval on a machine with `count` GPUs; return the process."""
    startup = folder / "profile_default" / "startup"
    startup.mkdir(parents=True)
    (startup / "00-double.py").write_text(STARTUP, encoding="utf-8")
    env = os.environ | {
        "IPYTHONDIR": str(folder),
        "PYTHONPATH": PYTHONPATH,
        "D2LMINI_DOUBLE": MACHINES[count],
        "D2LMINI_GPUS": "auto",
        "OMP_NUM_THREADS": "1",
    }
    sanitise = ROOT / "tests" / "sanitise-gpu.cfg"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
    command += ["--nbval", "--nbval-sanitize-with", str(sanitise), "--nbval-cell-timeout", "600"]
    command += [str(ROOT / "chapters" / f"{chapter}.ipynb")]
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True)


@pytest.mark.parametrize(("chapter", "count"), list(cases()))
def test_the_chapter_runs_and_claims_the_truth(chapter, count, tmp_path):
    done = run(chapter, count, tmp_path)
    assert done.returncode == 0, done.stdout
