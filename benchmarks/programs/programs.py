"""The programs: whose they are, and how they are started."""

import csv
import shlex
from dataclasses import dataclass
from pathlib import Path

PATH = Path(__file__).with_name("programs.csv")


@dataclass(frozen=True)
class Program:
    """A trainer that somebody else has written.

    Attributes
    ----------
    name : str
        The folder that its source is in.
    source, version : str
        A repository and a commit, or a distribution and its version.
    folder : str
        Where in its source it is started.
    command : str
        What follows ``simgpu run``. ``{data}`` is the folder of what was made up, ``{out}`` one
        for what is written.
    environment : str
        Variables, as a shell has them before a command.
    changes : str
        What was made up, left out or replaced.
    """

    name: str
    source: str
    version: str
    folder: str
    command: str
    environment: str
    changes: str

    def arguments(self, **folders) -> list:
        """Return the arguments of ``simgpu run``."""
        return shlex.split(self.command.format(**folders))

    def variables(self, **folders) -> dict:
        """Return the variables of its environment."""
        words = shlex.split(self.environment.format(**folders))
        return dict(word.split("=", 1) for word in words)


def read() -> list:
    """Return all programs."""
    with PATH.open(newline="", encoding="utf-8") as file:
        return [Program(**row) for row in csv.DictReader(file)]
