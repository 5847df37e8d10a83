"""The command ``simgpu`` itself."""

import re
from importlib.metadata import version

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
