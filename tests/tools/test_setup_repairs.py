"""Set-up in a checkout, with a pip that installs nothing: from every state to a complete one."""

import os
import shutil
import signal
import subprocess
import sys
import time

import pytest
from support.paths import ROOT, TESTS

from tools import setup_env

CODE = "from tools import setup_env; setup_env.SPACE_GB = 0; setup_env.main()"
STEPS = ["venv", "requirements.txt", "."]
ANEW, UPDATE = STEPS, STEPS[1:]


class Checkout:
    """A checkout with the pins and the metadata only, and what was done in it."""

    def __init__(self, folder):
        self.folder, self.fakes = folder, folder.parent / "fakes"
        self.log = self.fakes / "log"
        folder.mkdir()
        self.fakes.mkdir()
        self.log.touch()
        shutil.copy(TESTS / "support" / "fake_venv.py", self.fakes / "venv.py")
        for name in ("requirements.txt", "pyproject.toml"):
            (folder / name).write_text("")

    def start(self, halt="", **options):
        """Start a set-up that halts in a step, in a session of its own."""
        self.log.write_text("" if halt else self.log.read_text())
        paths = os.pathsep.join([str(self.fakes), str(ROOT)])
        env = os.environ | {"PYTHONPATH": paths, "FAKE": str(self.fakes), "HALT": halt}
        process = subprocess.Popen(
            [sys.executable, "-c", CODE],
            **{"cwd": self.folder} | options,
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        while halt and self.steps()[-1:] != [halt]:
            assert process.poll() is None, process.stdout.read()
            time.sleep(0.01)
        return process

    def steps(self):
        return self.log.read_text().splitlines()

    def set_up(self, **options):
        """Set up; return the steps that it took."""
        self.log.write_text("")
        process = self.start(**options)
        said, _ = process.communicate()
        assert process.returncode == 0, said
        return self.steps()

    def is_complete(self):
        packages = (self.folder / ".venv" / "packages").read_text().splitlines()
        return packages == UPDATE and not (self.folder / ".venv" / "half-installed").exists()


@pytest.fixture
def checkout(tmp_path):
    return Checkout(tmp_path / "somebody's copy")


def end(process, number):
    """Send a signal to all processes of a set-up, as Ctrl-C does; return what was said."""
    os.killpg(process.pid, number)
    return process.communicate()[0]


def test_nothing_is_done_twice_until_the_pins_change(checkout):
    assert checkout.set_up() == ANEW
    assert checkout.is_complete()
    assert checkout.set_up() == []
    (checkout.folder / "requirements.txt").write_text("torch==9")
    assert checkout.set_up() == UPDATE
    assert checkout.set_up() == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
@pytest.mark.parametrize("step", STEPS)
def test_what_was_interrupted_is_made_anew(checkout, step, number):
    said = end(checkout.start(halt=step), number)
    assert "Traceback" not in said
    assert ("set-up: interrupted" in said) == (number == signal.SIGINT)
    assert checkout.set_up() == ANEW
    assert checkout.is_complete()


@pytest.mark.parametrize("step", UPDATE)
def test_an_interrupted_change_of_the_pins_is_made_anew(checkout, step):
    checkout.set_up()
    (checkout.folder / "requirements.txt").write_text("torch==9")
    end(checkout.start(halt=step), signal.SIGKILL)
    assert checkout.set_up() == ANEW
    assert checkout.is_complete()


def test_a_part_that_fails_is_named_and_tried_again(checkout):
    checkout.set_up()
    (checkout.folder / ".venv" / "half-installed").touch()
    (checkout.folder / "requirements.txt").write_text("torch==9")
    process = checkout.start()
    said, _ = process.communicate()
    assert process.returncode == 1
    assert "this is half an installation\n\nset-up: this failed, see above: " in said
    assert checkout.set_up() == ANEW


def test_the_second_of_two_set_ups_waits_for_the_first(checkout):
    first = checkout.start(halt="requirements.txt")
    second = checkout.start()
    assert second.stdout.readline() == "set-up: waiting for another set-up of this checkout\n"
    (checkout.fakes / "go").touch()
    assert first.communicate()[0].endswith("set-up: done\n")
    assert second.communicate()[0] == ""
    assert (first.returncode, second.returncode) == (0, 0)
    assert checkout.steps() == ANEW


@pytest.mark.parametrize("step", STEPS)
def test_what_a_killed_set_up_left_running_is_waited_for(checkout, step):
    first = checkout.start(halt=step)
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    second = checkout.start()
    assert second.stdout.readline() == "set-up: waiting for another set-up of this checkout\n"
    (checkout.fakes / "go").touch()
    second.communicate()
    assert second.returncode == 0
    assert checkout.is_complete()


def test_a_copied_checkout_gets_an_environment_of_its_own(checkout):
    checkout.set_up()
    copy = checkout.folder.parent / "copy"
    shutil.copytree(checkout.folder, copy, symlinks=True)
    assert checkout.set_up(cwd=copy) == ANEW
    assert checkout.set_up(cwd=copy) == []
    assert checkout.set_up() == []


def test_a_moved_checkout_gets_a_new_environment(checkout):
    checkout.set_up()
    checkout.folder = checkout.folder.rename(checkout.folder.parent / "moved")
    assert checkout.set_up() == ANEW
    link = checkout.folder.parent / "link"
    link.symlink_to(checkout.folder)
    assert checkout.set_up(cwd=link) == []


def test_an_environment_without_its_python_is_made_anew(checkout):
    checkout.set_up()
    python = checkout.folder / ".venv" / "bin" / "python"
    python.unlink()
    assert checkout.set_up() == ANEW
    python.unlink()
    python.symlink_to("python3.9-that-was-removed")
    assert checkout.set_up() == ANEW
    assert checkout.is_complete()


def test_an_environment_of_another_python_is_made_anew(checkout):
    checkout.set_up()
    stamp = checkout.folder / ".venv" / "installed-from"
    stamp.write_text("0" * 64 + "\n" + stamp.read_text().split()[1])
    assert checkout.set_up() == ANEW


def refused(process):
    """Return what a set-up said that could not be done."""
    said, _ = process.communicate()
    assert process.returncode == 1
    assert said.startswith("\nset-up: ")
    assert "Traceback" not in said
    return said


def test_a_venv_that_is_no_folder_is_refused(checkout):
    venv = checkout.folder / ".venv"
    venv.touch()
    assert ".venv is no folder. Remove it" in refused(checkout.start())
    venv.unlink()
    venv.symlink_to("nowhere")
    assert ".venv is no folder. Remove it" in refused(checkout.start())


@pytest.mark.parametrize("name", ["a$x", "a" + os.pathsep + "b"])
def test_a_path_in_which_no_environment_works_is_refused(checkout, name):
    checkout.folder = checkout.folder.rename(checkout.folder.parent / name)
    assert "the checkout's path contains" in refused(checkout.start())
    assert not (checkout.folder / ".venv").exists()


def test_a_checkout_that_cannot_be_written_is_refused(checkout, monkeypatch, capsys):
    lock = checkout.folder / ".venv.lock"
    lock.mkdir()
    assert "Is a directory: '.venv.lock'" in refused(checkout.start())
    lock.rmdir()

    def deny(file):  # who runs the tests may be allowed everything
        raise PermissionError(13, "Permission denied", ".venv.lock")

    monkeypatch.chdir(checkout.folder)
    monkeypatch.setattr(setup_env, "lock", deny)
    with pytest.raises(SystemExit):
        setup_env.main()
    assert "Permission denied: '.venv.lock'\nSet-up writes .venv" in capsys.readouterr().err
