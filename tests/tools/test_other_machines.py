"""Machines without network, containers, clusters: what is there for them is in order."""

import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from support.paths import ROOT

from tools import make, setup_env, wheels

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
    base = re.search(r"^FROM python:(\d+)\.(\d+)\.\d+-slim-[a-z]+$", text, re.MULTILINE)
    assert base, "the image is named to the last digit, with the system under it"
    assert oldest <= tuple(map(int, base.groups())) <= newest
    assert (ROOT / ".dockerignore").read_text() == (ROOT / ".containerignore").read_text()


def test_the_container_is_run_as_its_first_lines_say():
    text = (ROOT / "Containerfile").read_text()
    said, lines = text.partition("\nFROM ")[::2]
    (folder,) = re.findall(r"^WORKDIR (\S+)$", lines, re.MULTILINE)
    (port,) = re.findall(r"^EXPOSE (\d+)$", lines, re.MULTILINE)
    (program,) = re.findall(r"^CMD (.+)$", lines, re.MULTILINE)
    assert json.loads(program)[:2] == ["make", "lab"]
    assert f"-p 127.0.0.1:{port}:{port} " in said, "no other machine reaches it"
    for mounted in re.findall(r"(?:-v|--bind) \S+?:(\S+)", said):
        assert mounted == f"{folder}/{Path(make.NOTEBOOKS).parent}", "where readers work"
        assert f"install --directory --owner=reader {folder} {mounted}\n" in lines
    assert said.count(f"--pwd {folder} ") == 1
    commands = re.findall(r"^#     (.+)$", said, re.MULTILINE)
    build = next(line for line in commands if " build " in line)
    assert f"`{build}`" in (ROOT / "README.md").read_text()
    assert {command for line in commands for command in re.findall(r"\bmake (\w+)", line)} == {
        "lab"
    }


def test_what_the_package_is_built_from_is_in_the_container_before_set_up():
    before = (ROOT / "Containerfile").read_text().partition("RUN python -m tools.make setup")[0]
    copied = {
        n for line in re.findall(r"^COPY \S+ (.+)$", before, re.MULTILINE) for n in line.split()
    }
    text = (ROOT / "pyproject.toml").read_text()
    needed = re.findall(r'^readme = "(.+)"$|^license-files = \["(.+)"\]$', text, re.MULTILINE)
    assert len(needed) == 2
    assert {name for pair in needed for name in pair if name} <= copied
    assert {"requirements.txt", "pyproject.toml", "d2lmini"} <= copied


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


def test_the_batch_script_is_run_as_the_readme_says():
    row = next(line for line in (ROOT / "README.md").read_text().splitlines() if "Slurm" in line)
    assert f"`sbatch {SBATCH.name}`" in row
    assert f"]({SBATCH.relative_to(ROOT).as_posix()})" in row
    text = SBATCH.read_text()
    for script in set(re.findall(r"\b\w+\.py\b", text)):
        assert (SBATCH.parent / script).exists(), script
    program = (SBATCH.parent / "train_ddp.py").read_text()
    named = set(re.findall(r"train_ddp\.py (--\w+)", text))
    assert named == {"--checkpoint"}
    assert all(f'add("{option}"' in program or f'"{option}",' in program for option in named)
    used = set(re.findall(r"\$\{(\w+)", text)) - {"LAUNCH"}
    own = {name for name in used if not name.startswith("SLURM_")}
    assert own == {"PYTHON", "OUT", "GPUS", "D2LMINI_DATA"}, "what one may set"


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
        "SLURM_CPUS_PER_TASK": "32",
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
    assert words[:6] == ["srun", "--cpus-per-task", "32", "py", "-m", "torch.distributed.run"]
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
