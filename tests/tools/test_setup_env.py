"""Set-up: clear messages where it cannot work, nothing done twice; the commands, without make."""

import os
import re
import subprocess
import sys

import pytest
from support.paths import ROOT

from tools import make, setup_env


@pytest.mark.parametrize("version", [(3, 9), (2, 7), (3, 14)])
def test_unsupported_python_is_named_with_the_remedy(version, capsys):
    with pytest.raises(SystemExit) as stop:
        setup_env.check_python(version)
    assert stop.value.code == 1
    message = capsys.readouterr().err
    assert "Python {}.{} is not supported".format(*version) in message
    assert "PYTHON=" in message


@pytest.mark.parametrize("version", [(3, 10), (3, 11), (3, 12), (3, 13)])
def test_supported_pythons_pass(version):
    setup_env.check_python(version)


def test_full_disk_is_noticed_before_anything_is_installed(capsys):
    with pytest.raises(SystemExit):
        setup_env.check_space(free=0.2e9)
    assert "only 0.2 GB are free" in capsys.readouterr().err
    setup_env.check_space(free=10e9)


@pytest.mark.parametrize(
    ("log", "hint"),
    [
        ("OSError: [Errno 28] No space left on device", "disk is full"),
        ("Temporary failure in name resolution", "registry cannot be reached"),
        ("(from versions: none)", "registry cannot be reached"),
        ("[Errno 30] Read-only file system: '.venv.lock'", "Make them writable"),
    ],
)
def test_a_known_failure_is_explained(log, hint):
    assert hint in setup_env.explain(log)
    assert setup_env.explain("error: command 'gcc' failed") == ""


@pytest.mark.parametrize(
    ("system", "parts"), [("posix", ("bin", "python")), ("nt", ("Scripts", "python.exe"))]
)
def test_the_environments_python_is_where_the_system_has_it(system, parts, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(os, "name", system)
        path = setup_env.python()
    assert path == os.path.join(".venv", *parts)


@pytest.fixture
def calls(monkeypatch):
    """Return what would be called, and the variables; each fails if `pytest` is among it."""
    calls = []

    def call(command, env):
        calls.append((command, env))
        return 3 if "pytest" in command else 0

    monkeypatch.setattr(setup_env, "main", lambda: None)
    monkeypatch.setattr(make.subprocess, "call", call)
    return calls


def test_the_makefile_has_the_same_commands():
    text = (ROOT / "Makefile").read_text()
    targets = re.search(r"^COMMANDS = (.*)$", text, re.MULTILINE)[1]
    assert set(targets.split()) == {*make.COMMANDS, "clean"}
    assert set(re.findall(r'"make ([\w-]+)', text)) == {*make.COMMANDS, "clean"} - {"setup"}


def test_make_hands_its_arguments_on():
    done = subprocess.run(
        ["make", "--no-print-directory", "-n", "bench", "ARGS=--only sim", "PYTHON=py"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.stdout.splitlines()[-1] == "py -m tools.make bench --only sim"


@pytest.mark.parametrize("python", ["true", "echo", "no-such-python"])
def test_what_is_no_python_is_refused(python):
    command = ["make", "--no-print-directory", "setup", f"PYTHON={python}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode
    assert f"PYTHON={python} is no Python" in done.stderr


def test_arguments_go_to_the_last_part(calls):
    assert make.main("bench", "--only", "sim") == 0
    assert make.main("lint", "chapters/devices.ipynb") == 0
    commands = [" ".join(command[1:]) for command, _ in calls]
    assert commands[0] == "-m benchmarks --only sim"
    assert commands[1] == "-m ruff check ."
    assert commands[-1] == "-m tools.notebooks --check chapters/devices.ipynb"
    make.main("lint")
    assert calls[-1][0][1:] == ["-m", "tools.notebooks", "--check"]


def test_readers_and_authors_open_notebooks_of_their_own(calls):
    make.main("lab", "--no-browser")
    make.main("edit", "--no-browser")
    commands = [" ".join(command[1:]) for command, _ in calls]
    assert commands == [
        "-m tools.readers --trust",
        "-m jupyterlab _build/notebooks/intro.ipynb --no-browser",
        "-m jupyterlab chapters --no-browser",
    ]


def test_a_part_that_fails_is_the_last_one(calls):
    assert make.main("test") == 3
    assert "pytest" in calls[-1][0]
    assert any("ruff" in command for command, _ in calls)


def test_tests_simulate_and_those_of_gpus_take_what_is_there(calls, monkeypatch):
    monkeypatch.setenv("D2LMINI_GPUS", "cuda")
    for name, expected in [("test", "sim"), ("outputs", "sim"), ("test-gpu", "auto")]:
        make.main(name)
        assert calls[-1][1]["D2LMINI_GPUS"] == expected
    make.main("lab")
    assert calls[-1][1]["D2LMINI_GPUS"] == "cuda"


def test_a_relative_folder_of_data_is_found_from_the_chapters(calls, monkeypatch):
    monkeypatch.setenv("D2LMINI_DATA", os.path.join("..", "data"))
    make.main("book")
    assert calls[-1][1]["D2LMINI_DATA"] == os.path.abspath(os.path.join("..", "data"))
    monkeypatch.setenv("D2LMINI_DATA", "")
    make.main("book")
    assert calls[-1][1]["D2LMINI_DATA"] == ""


def test_an_unknown_command_is_answered_with_the_known_ones(capsys):
    assert make.main("bok") == 2
    assert "book, test, test-gpu" in capsys.readouterr().err


def test_ctrl_c_is_left_to_what_runs(tmp_path, monkeypatch):
    """JupyterLab asks on the first Ctrl-C, and ends its kernels on the second."""
    script = tmp_path / "asks.py"
    script.write_text(
        "import os, signal, sys, time\n"
        "try:\n"
        "    os.killpg(0, signal.SIGINT)\n"
        "    time.sleep(60)\n"
        "except KeyboardInterrupt:\n"
        "    time.sleep(1)\n"
        "    sys.exit(5)\n"
    )
    code = (
        "import sys; from tools import make, setup_env; setup_env.python = lambda: sys.executable; "
        f"sys.exit(make.run([{str(script)!r}], None))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, start_new_session=True)
    assert done.returncode == 5
