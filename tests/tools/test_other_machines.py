"""Machines without network, containers, clusters: what is there for them is in order."""

import os
import re
import subprocess
import sys
import zipfile

import pytest
from support.paths import ROOT

from tools import setup_env, wheels

SBATCH = ROOT / "chapters" / "scripts" / "train_ddp.sbatch"
METADATA = "Metadata-Version: 2.1\nName: tiny-thing\nVersion: 1.0\n"
WHEEL = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


def write_wheel(folder):
    """Write the smallest wheel that there is: a registry of one package."""
    folder.mkdir()
    info = "tiny_thing-1.0.dist-info"
    files = {"tiny_thing.py": "x = 1\n", f"{info}/METADATA": METADATA, f"{info}/WHEEL": WHEEL}
    record = "".join(f"{name},,\n" for name in [*files, f"{info}/RECORD"])
    with zipfile.ZipFile(folder / "tiny_thing-1.0-py3-none-any.whl", "w") as archive:
        for name, text in {**files, f"{info}/RECORD": record}.items():
            archive.writestr(name, text)


@pytest.fixture
def registry(tmp_path, monkeypatch):
    """Let pip know one package, and no network."""
    write_wheel(tmp_path / "registry")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "registry"))
    (tmp_path / "requirements.txt").write_text("tiny-thing==1.0\n")
    return tmp_path


def test_packages_are_fetched_and_installed_without_network(registry, monkeypatch, capsys):
    folder, requirements = registry / "wheels", registry / "requirements.txt"
    assert wheels.main([], requirements, folder) == 0
    assert "1 packages" in capsys.readouterr().out
    monkeypatch.delenv("PIP_FIND_LINKS")
    monkeypatch.delenv("PIP_NO_INDEX")
    target = registry / "installed"
    install = [sys.executable, "-m", "pip", "install", "-q", "--target", str(target)]
    options = setup_env.from_wheels(str(folder))
    assert "--no-index" in options
    done = subprocess.run([*install, *options, "-r", str(requirements)], check=False)
    assert done.returncode == 0
    assert (target / "tiny_thing.py").exists()


def test_a_package_that_cannot_be_fetched_is_no_success(registry, capsys):
    (registry / "requirements.txt").write_text("no-such-thing==1.0\n")
    assert wheels.main([], registry / "requirements.txt", registry / "wheels") != 0
    assert "not all packages" in capsys.readouterr().err


def test_without_wheels_set_up_asks_the_registry(tmp_path):
    assert setup_env.from_wheels(str(tmp_path / "wheels")) == []


def test_the_container_is_built_from_files_that_are_there():
    text = (ROOT / "Containerfile").read_text()
    copied = re.findall(r"^COPY --chown=reader (.+) \S+$", text, re.MULTILINE)
    names = [name for line in copied for name in line.split()]
    assert names[-1] == "."
    for name in names:
        assert (ROOT / name).exists(), name
    oldest, newest = setup_env.OLDEST, setup_env.NEWEST
    version = tuple(map(int, re.search(r"^FROM python:(\d+)\.(\d+)", text, re.MULTILINE).groups()))
    assert oldest <= version <= newest
    assert (ROOT / ".dockerignore").read_text() == (ROOT / ".containerignore").read_text()


def test_the_container_needs_no_more_files_to_set_up(tmp_path):
    """What is copied before `setup` is enough for it to start, and the rest changes nothing."""
    done = subprocess.run(
        [sys.executable, "-c", "from tools import make, setup_env; print(setup_env.fingerprint())"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert len(re.findall(r"[0-9a-f]{64}", done.stdout)) == 2
    source = (ROOT / "tools" / "make.py").read_text() + (
        ROOT / "tools" / "setup_env.py"
    ).read_text()
    top = re.findall(r"^(?:from tools import|import) (.+)$", source, re.MULTILINE)
    assert set(", ".join(top).split(", ")) <= {*sys.stdlib_module_names, "setup_env"}


def test_the_batch_script_is_bash():
    subprocess.run(["bash", "-n", str(SBATCH)], check=True)
    text = SBATCH.read_text()
    assert text.startswith("#!/bin/bash\n")
    options = re.findall(r"^#SBATCH (--[\w-]+)=", text, re.MULTILINE)
    assert {"--nodes", "--ntasks-per-node", "--gpus-per-node"} <= set(options)
    directives_end = text.rindex("#SBATCH")
    assert "\nset -eu" in text[directives_end:], "Slurm stops reading at the first command"


def test_the_batch_script_starts_torchrun_on_every_node(tmp_path):
    for name, body in {"srun": 'echo srun "$@"', "scontrol": "printf 'n7\\nn8\\n'"}.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{body}\n")
        (tmp_path / name).chmod(0o755)
    slurm = {
        "SLURM_JOB_ID": "41",
        "SLURM_JOB_NUM_NODES": "2",
        "SLURM_JOB_NODELIST": "n[7-8]",
        "SLURM_GPUS_ON_NODE": "8",
        "SLURM_SUBMIT_DIR": str(SBATCH.parent),
        "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}",
        "PYTHON": "py",
        "OUT": "/shared",
    }
    done = subprocess.run(
        ["bash", str(SBATCH), "--epochs", "2"],
        env={**os.environ, **slurm},
        capture_output=True,
        text=True,
        check=True,
    )
    words = done.stdout.split()
    assert words[:4] == ["srun", "py", "-m", "torch.distributed.run"]
    for option, value in {
        "--nnodes": "2",
        "--nproc-per-node": "8",
        "--rdzv-endpoint": "n7:20041",
        "--rdzv-id": "41",
        "--checkpoint": "/shared/train_ddp.pt",
        "--epochs": "2",
    }.items():
        assert words[words.index(option) + 1] == value
    assert words.index("train_ddp.py") > words.index("--max-restarts")
