"""Containers and clusters: what is there for them is in order."""

import json
import os
import re
import subprocess

import pytest
from support.paths import ROOT

from tools import clean, setup_env

SBATCH = ROOT / "chapters" / "scripts" / "train_ddp.sbatch"


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
        assert mounted == f"{folder}/{clean.NOTEBOOKS.parent}", "where readers work"
        assert f"install --directory --owner=reader {folder} {mounted}\n" in lines
    assert said.count(f"--pwd {folder} ") == 1
    commands = re.findall(r"^#     (.+)$", said, re.MULTILINE)
    build = next(line for line in commands if " build " in line)
    assert f"`{build}`" in (ROOT / "README.md").read_text()
    assert {command for line in commands for command in re.findall(r"\bmake (\w+)", line)} == {
        "lab"
    }


def test_what_the_package_is_built_from_is_in_the_container_before_set_up():
    before = (ROOT / "Containerfile").read_text().partition("RUN make setup")[0]
    copied = {
        n for line in re.findall(r"^COPY \S+ (.+)$", before, re.MULTILINE) for n in line.split()
    }
    text = (ROOT / "pyproject.toml").read_text()
    needed = re.findall(r'^readme = "(.+)"$|^license-files = \["(.+)"\]$', text, re.MULTILINE)
    assert len(needed) == 2
    folders = {name.partition("/")[0] for pair in needed for name in pair if name}
    assert folders <= copied
    assert {"requirements.txt", "pyproject.toml", "d2lmini"} <= copied, "what it installs"
    assert {"Makefile", "tools/setup_env.py"} <= copied, "what installs it"


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


@pytest.mark.process
def test_the_batch_script_is_bash():
    subprocess.run(["bash", "-n", str(SBATCH)], check=True)
    text = SBATCH.read_text()
    assert text.startswith("#!/bin/bash\n")
    options = re.findall(r"^#SBATCH (--[\w-]+)=", text, re.MULTILINE)
    assert {"--nodes", "--ntasks-per-node", "--gpus-per-node"} <= set(options)
    directives_end = text.rindex("#SBATCH")
    assert "\nset -eu" in text[directives_end:], "Slurm stops reading at the first command"


@pytest.mark.process
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
