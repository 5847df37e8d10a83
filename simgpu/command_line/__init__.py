"""What all commands share: a parser of options (``parser.py``), how far it is (``progress.py``)."""

from simgpu.command_line.parser import Parser
from simgpu.command_line.progress import Progress

__all__ = ["Parser", "Progress"]
