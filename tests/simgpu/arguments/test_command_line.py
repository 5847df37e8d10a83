"""The command ``simgpu`` itself."""

import pkgutil
import re
import subprocess
import sys
from importlib.metadata import version

import pytest
import torch

import simgpu
from simgpu.__main__ import COMMANDS, main


def test_it_names_its_version_and_that_of_pytorch(capsys):
    assert main(["--version"]) == 0
    found = re.fullmatch(r"simgpu (\S+), PyTorch (\S+)\n", capsys.readouterr().out)
    assert found.groups() == (simgpu.__version__, torch.__version__)
    assert version("torch") == torch.__version__


def test_its_help_names_all_commands(capsys):
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    assert all(f"simgpu {name}" in out for name in COMMANDS)


def test_an_unknown_command_is_named(capsys):
    assert main(["rnu"]) == 2
    assert "unknown command 'rnu'" in capsys.readouterr().err


@pytest.mark.process
def test_help_tables_and_mistakes_do_not_wait_for_pytorch():
    """They are answered at once; each command imports what it needs when it starts."""
    program = """
import sys
from simgpu.__main__ import COMMANDS, main
for words in ["--help"], ["--version"], ["gpus"], ["run", "--bogus"], ["check", "--bogus"]:
    try:
        main(words)
    except SystemExit:
        pass
for command in sorted(COMMANDS.keys() - {"calibrate"}):
    try:
        main([command, "--help"])
    except SystemExit:
        pass
assert "torch" not in sys.modules and "numpy" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.process
def test_public_names_are_there_although_nothing_was_imported_before():
    program = """
import sys
import simgpu as sim
import simgpu.run.options
assert "torch" not in sys.modules
assert sim.units.percent(0.5) == "50.0 %"
assert sim.device_count() == 0 and callable(sim.configure) and "torch" in sys.modules
assert {"configure", "spawn", "__version__"} <= set(dir(sim))
assert not hasattr(sim, "no_such_name")
from simgpu import *
assert configure is sim.configure
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_public_names_are_not_hidden_by_modules():
    """A module is an attribute of its package as soon as it is imported."""
    modules = {module.name for module in pkgutil.iter_modules(simgpu.__path__)}
    assert not modules & set(simgpu.__all__)
