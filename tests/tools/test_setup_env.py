"""Set-up does all that is needed, and nothing twice; the Makefile's targets call what they name."""

import fcntl
import os
import re
import shutil
import subprocess
import sys

import pytest
from support.live import checkout
from support.paths import ROOT

from tools import setup_env

ANEW, UPDATE = ["venv", "pip"], ["pip"]


@pytest.mark.parametrize(
    ("version", "free", "message"),
    [
        ((3, 9), 1e12, "Python 3.9 is not supported; this project needs 3.10 to 3.13"),
        ((3, 14), 1e12, "make book PYTHON=python3.12"),
        ((3, 10), 2e8, "the disk is full: 0.2 GB are free"),
    ],
)
def test_what_cannot_end_well_is_not_begun(version, free, message):
    setup_env.check((3, 10), 1e12)
    setup_env.check((3, 13), 1e12)
    with pytest.raises(SystemExit, match=re.escape(message)):
        setup_env.check(version, free)


def test_debian_without_venv_gets_the_packages_name(monkeypatch):
    monkeypatch.setitem(sys.modules, "ensurepip", None)
    with pytest.raises(SystemExit, match=r"apt install python3\.11-venv"):
        setup_env.check((3, 11), 1e12)


class Installer:
    """What `python -m venv` and pip are to a test: quick, and failing where they are told to."""

    def __init__(self):
        self.commands, self.stop = [], None

    def __call__(self, command):
        step = command[2]  # python -m step
        self.commands.append(command)
        if step == "venv":
            shutil.rmtree(".venv", ignore_errors=True)
            setup_env.PYTHON.parent.mkdir(parents=True)
            setup_env.PYTHON.touch()
        if step == self.stop:
            raise KeyboardInterrupt
        return 0

    def steps(self):
        """Set up; return what it took."""
        self.commands.clear()
        setup_env.main()
        return [command[2] for command in self.commands]


@pytest.fixture
def installer(tmp_path, monkeypatch):
    """Go to a checkout that has the pins only."""
    installer = Installer()
    folder = tmp_path / "somebody's copy"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setattr(setup_env, "check", lambda version, free: None)
    monkeypatch.setattr(setup_env.subprocess, "call", installer)
    for name in ("requirements.txt", "pyproject.toml"):
        (folder / name).touch()
    return installer


@pytest.mark.parametrize("name", ["requirements.txt", "pyproject.toml"])
def test_nothing_is_done_twice_until_a_pin_changes(installer, name):
    assert installer.steps() == ANEW
    assert installer.steps() == []
    with open(name, "w") as file:
        file.write("torch==9")
    assert installer.steps() == UPDATE
    assert installer.steps() == []


@pytest.mark.parametrize(("step", "then"), [("venv", ANEW), ("pip", UPDATE)])
def test_an_interrupted_installation_goes_on_where_it_stopped(installer, step, then):
    installer.stop = step
    with pytest.raises(KeyboardInterrupt):
        installer.steps()
    installer.stop = None
    assert installer.steps() == then
    assert installer.steps() == []


def test_an_interrupted_update_goes_on(installer):
    installer.steps()
    with open("requirements.txt", "w") as file:
        file.write("torch==9")
    test_an_interrupted_installation_goes_on_where_it_stopped(installer, "pip", UPDATE)


def test_a_step_that_fails_is_not_taken_for_done(installer, monkeypatch):
    monkeypatch.setattr(setup_env.subprocess, "call", lambda command: 1)
    with pytest.raises(SystemExit, match="this failed, see above"):
        setup_env.main()
    assert setup_env.installed() != setup_env.wanted()


def test_a_copied_or_moved_checkout_runs_its_own_code(installer, monkeypatch):
    installer.steps()
    shutil.copytree(".", "../copy")
    monkeypatch.chdir("../copy")
    assert installer.steps() == ANEW
    os.rename("../copy", "../moved")
    assert installer.steps() == ANEW


def test_a_link_leads_to_another_disk_but_to_no_other_checkouts_environment(installer, monkeypatch):
    there = os.path.abspath("../on a larger disk")
    os.mkdir(there)
    os.symlink(there, ".venv")
    assert installer.steps() == ANEW
    assert os.path.islink(".venv"), "it stays"
    assert installer.commands[0][-1] == setup_env.Path(there)
    assert installer.steps() == []
    other = os.path.abspath("../another")
    shutil.copytree(".", other, symlinks=True)
    monkeypatch.chdir(other)
    with pytest.raises(SystemExit, match=r"is a link to the environment of .*somebody's copy"):
        installer.steps()
    assert installer.commands == []
    os.unlink(".venv")
    assert installer.steps() == ANEW


def test_an_environment_without_its_python_or_of_another_is_made_anew(installer, monkeypatch):
    installer.steps()
    setup_env.PYTHON.unlink()
    setup_env.PYTHON.symlink_to("python3.9-that-was-removed")
    assert installer.steps() == ANEW
    monkeypatch.setattr(setup_env.sys, "version_info", (3, 99, 0))
    assert installer.steps() == ANEW


@pytest.mark.parametrize("seen", [True, False])
def test_how_far_it_is_is_shown_where_somebody_looks(installer, monkeypatch, capsys, seen):
    followed = []
    monkeypatch.setattr(setup_env, "follow", followed.append)
    monkeypatch.setattr(setup_env.sys.stdout, "isatty", lambda: seen)
    assert installer.steps() == (["venv"] if seen else ANEW)
    assert len(followed) == seen
    assert seen or "-q" in installer.commands[-1]
    assert "minutes" in capsys.readouterr().out


def test_packages_are_counted_as_pip_names_them(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (site := tmp_path / ".venv" / "lib" / "python3" / "site-packages").mkdir(parents=True)
    (site / "pip-24.dist-info").mkdir()
    packages, said = setup_env.Packages(), []
    for line in (
        "Collecting torch==2.13.0 (from -r requirements.txt (line 3))\n",
        "  Downloading torch-2.13.0-cp311-none-any.whl (191.2 MB)\n",
        "Requirement already satisfied: numpy in .venv/lib\n",
        "Installing collected packages: torch, sympy, networkx\n",
    ):
        packages.read(line)
        said.append(packages.text())
    (site / "torch-2.13.0.dist-info").mkdir()
    said.append(packages.text())
    assert said[1:] == [
        "set-up: fetching package 1: torch (191.2 MB)",
        "set-up: fetching package 2: torch (191.2 MB)",
        "set-up: installing package 1 of 3",
        "set-up: installing package 2 of 3",
    ]


@pytest.mark.process
@pytest.mark.parametrize("code", [0, 1])
def test_pip_is_followed_to_its_end(tmp_path, monkeypatch, capsys, code):
    monkeypatch.chdir(tmp_path)
    pip = f"print('Collecting torch'); raise SystemExit({code})"
    if code:
        with pytest.raises(SystemExit, match="goes on where it stopped"):
            setup_env.follow([sys.executable, "-c", pip])
    else:
        setup_env.follow([sys.executable, "-c", pip])
    assert "set-up: fetching package 1: " in capsys.readouterr().out


def test_wheels_take_the_place_of_the_network(installer):
    installer.steps()
    assert "--no-index" not in installer.commands[-1]
    os.mkdir("wheels")
    setup_env.PYTHON.unlink()
    installer.steps()
    assert {"--no-index", "--find-links", "wheels"} < set(installer.commands[-1])


def test_of_two_at_once_the_second_is_refused(installer):
    with open(".venv.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(SystemExit, match="another one is running here"):
            installer.steps()
    assert installer.steps() == ANEW


def make(folder, *arguments, **variables):
    """Call make in a folder; return what it prints."""
    command = ["make", "--no-print-directory", f"PYTHON={sys.executable}", *arguments]
    env = os.environ | variables
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def python_that_tells(tmp_path):
    """Return a checkout whose .venv has a Python that prints what it is called with."""
    python = checkout(tmp_path) / setup_env.PYTHON
    python.write_text('#!/bin/sh\necho "$D2LMINI_GPUS|$D2LMINI_DATA|$@"\n')
    return tmp_path


@pytest.mark.process
def test_arguments_and_settings_reach_the_program(python_that_tells):
    folder, settings = python_that_tells, {"D2LMINI_GPUS": "cuda", "D2LMINI_DATA": "../my data"}
    said = make(folder, "bench", "ARGS=--only sim", **settings)
    assert f"cuda|{folder}/../my data|-m benchmarks --only sim\n" in said
    said = make(folder, "outputs", "test-gpu", **settings | {"D2LMINI_DATA": "/my data"})
    assert "sim|/my data|-m tools.notebooks --run\n" in said
    assert "auto|/my data|-m pytest" in said


@pytest.mark.process
def test_help_names_every_target():
    targets = re.search(r"^\.PHONY: ((?:.*\\\n)*.*)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    named = re.findall(r"^make ([a-z-]+)", make(ROOT, "help"), re.MULTILINE)
    assert {*named, "help", "setup"} == set(targets[1].replace("\\", "").split())
