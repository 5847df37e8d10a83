"""The package as people install it: its wheel, in an environment that has nothing else.

PyTorch is the version in requirements.txt, and in another environment the newest that the wheel's
metadata allow, which may be the build with CUDA, of 5 GB. ``TORCH`` names one version instead, and
``WITH`` another Python than that of the tests:
``TORCH=2.14.1 WITH=python3.13 make test-all PARTS=tests/readers/test_installed.py``.
"""

import os
import re
import shutil
import subprocess
import sys

import pytest
from packaging.version import Version
from support.paths import ROOT

from tools.readers.downloads import build_wheel

README = (ROOT / "simgpu" / "README.md").read_text(encoding="utf-8")
pytestmark = [pytest.mark.process, pytest.mark.exhaustive, pytest.mark.timeout(1800)]
PINNED = re.search(r"^torch==(\S+)", (ROOT / "requirements.txt").read_text(), re.MULTILINE)[1]
NEWEST = "newest"
RELEASES = [os.environ["TORCH"]] if "TORCH" in os.environ else [PINNED, NEWEST]


@pytest.fixture(scope="module", params=RELEASES)
def installed(request, tmp_path_factory):
    """Yield the folder of the commands of an environment with the wheel."""
    folder = tmp_path_factory.mktemp("installed")
    wheel = folder / build_wheel(ROOT, folder)
    python = os.environ.get("WITH", sys.executable)
    subprocess.run([python, "-m", "venv", folder / "venv"], check=True)
    python = folder / "venv" / "bin" / "python"
    of_torch = [] if request.param == NEWEST else [f"torch=={request.param}"]
    subprocess.run(
        [python, "-m", "pip", "install", "-q", wheel, *of_torch],
        check=True,
        cwd=folder,
        env=environment(),
    )
    program = "import torch; print(torch.__version__.partition('+')[0])"
    release = output_of(python, "-c", program, cwd=folder).strip()
    if request.param == NEWEST:
        assert Version(release) >= Version(PINNED)
    else:
        assert release == request.param
    yield python.parent
    shutil.rmtree(folder)  # up to 5 GB


def environment():
    """Return the variables of a shell that knows nothing of this repository."""
    ours = ("PYTHON", "D2LMINI_", "SIMGPU_")
    return {key: value for key, value in os.environ.items() if not key.startswith(ours)}


def output_of(*command, cwd):
    """Return what a command prints."""
    return subprocess.run(
        command, cwd=cwd, env=environment(), check=True, capture_output=True, text=True
    ).stdout


def test_its_requirements_are_complete(installed, tmp_path):
    assert "No broken" in output_of(installed / "python", "-m", "pip", "check", cwd=tmp_path)
    listed = output_of(installed / "python", "-m", "pip", "list", cwd=tmp_path)
    assert not re.search(r"jupyter|matplotlib|sphinx", listed, re.IGNORECASE)


def test_the_script_of_the_readme_prints_what_stands_there(installed, tmp_path):
    script = re.search(r"```python\n(.*?)```", README, re.DOTALL)[1]
    command, printed = re.search(r"```\n\$ simgpu (.*?)\n(.*?)```", README, re.DOTALL).groups()
    (tmp_path / "train.py").write_text(script, encoding="utf-8")
    assert output_of(installed / "simgpu", *command.split(), cwd=tmp_path) == printed


def test_plans_comparisons_and_tables_have_their_data(installed, tmp_path):
    simgpu = installed / "simgpu"
    assert "step time" in output_of(
        simgpu, "plan", "gpt2-124m", "--gpus", "8", "--gpu", "a100", cwd=tmp_path
    )
    assert "H100" in output_of(simgpu, "gpus", cwd=tmp_path)
    compared = ("gpt2-124m", "--gpus", "8", "--gpu", "a100", "--tokens-per-second", "1000000")
    assert "nanoGPT" in output_of(simgpu, "compare", *compared, cwd=tmp_path)


def test_the_book_s_helpers_are_there(installed, tmp_path):
    program = "import d2lmini, simgpu; print(d2lmini.__name__, simgpu.__version__)"
    assert output_of(installed / "python", "-c", program, cwd=tmp_path).startswith("d2lmini 0.")
