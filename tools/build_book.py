"""Build the book; any warning is an error. Ends with the path of the front page."""

import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))  # run as a file, it would not find its neighbours

from tools.editions.languages import LANGUAGES  # noqa: E402

FRONT_PAGE = ROOT / "_build" / "html" / "index.html"


def build(*options):
    """Run jupyter-book; return its exit status and show its output where it failed."""
    for language in LANGUAGES:  # they come below the English pages, when these are finished
        shutil.rmtree(FRONT_PAGE.parent / language, ignore_errors=True)
    command = [str(Path(sys.executable).parent / "jupyter-book"), "build", str(ROOT)]
    command += ["-W", "-n", "--keep-going", "--all", *options]  # static files too, every time
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        print(done.stdout[-8000:], done.stderr[-8000:], sep="\n")
        print("book: the build failed; the warnings above say where")
    return done.returncode


if __name__ == "__main__":
    start = time.monotonic()
    print("book: building")
    status = build(*sys.argv[1:])
    if status == 0:
        print(f"book: built in {time.monotonic() - start:.0f} s; open the front page:")
        print(FRONT_PAGE)
    sys.exit(status)
