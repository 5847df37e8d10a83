"""Build the book; any warning is an error. Ends with the path of the front page."""

import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))  # run as a file, it would not find its neighbours

from tqdm import tqdm  # noqa: E402

from tools.editions.languages import LANGUAGES  # noqa: E402

STAGES = "reading sources", "writing output"  # of all pages, as Sphinx calls them
FRONT_PAGE = ROOT / "_build" / "html" / "index.html"


def build(*options):
    """Run jupyter-book; return its exit status and show its output where it failed."""
    for language in LANGUAGES:  # they come below the English pages, when these are finished
        shutil.rmtree(FRONT_PAGE.parent / language, ignore_errors=True)
    command = [str(Path(sys.executable).parent / "jupyter-book"), "build", str(ROOT)]
    command += ["-W", "-n", "--keep-going", "--all", *options]  # static files too, every time
    status, output = follow(command)
    if status:
        print(output[-16000:])
        print("book: the build failed; the warnings above say where")
    return status


def follow(command):
    """Run Sphinx, and show on a terminal how far it is; return its status and its output."""
    look = "{desc}: {percentage:.0f} %, {elapsed}, about {remaining} left"
    piped = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    bar, lines = tqdm(total=len(STAGES) * 100, desc="book", bar_format=look, disable=None), []
    with bar, subprocess.Popen(command, **piped) as sphinx:
        for line in sphinx.stdout:
            lines.append(line)
            for stage, percent in re.findall(r"(\w+ \w+)\.\.\. .*?\[ *(\d+)%\]", line):
                if stage in STAGES:
                    bar.update(100 * STAGES.index(stage) + int(percent) - bar.n)
    return sphinx.returncode, "".join(lines)


if __name__ == "__main__":
    start = time.monotonic()
    print("book: building, some minutes for the first time", flush=True)
    status = build(*sys.argv[1:])
    if status == 0:
        print(f"book: built in {time.monotonic() - start:.0f} s; open the front page:")
        print(FRONT_PAGE)
    sys.exit(status)
