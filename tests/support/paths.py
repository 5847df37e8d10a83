"""Where things are, and what a child process must find to import them."""

import os
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
ROOT = TESTS.parent
CHAPTERS = ROOT / "chapters"
SCRIPTS = CHAPTERS / "scripts"
PYTHONPATH = os.pathsep.join(map(str, (ROOT, TESTS, SCRIPTS)))  # as pytest has it
