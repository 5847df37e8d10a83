"""Write the notebooks that readers open; see `tools.readers`."""

import argparse
import sys
import time
from pathlib import Path

from tools.readers import build, place, stamp
from tools.readers.book import ROOT, Book

FOLDER = ROOT / "_build" / "notebooks"
CACHE = ROOT / "_build" / "pictures"


def main(arguments=None):
    """Command line: writes the notebooks, and says where."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trust", action="store_true", help="have JupyterLab show all outputs")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="default: _build/notebooks")
    options = parser.parse_args(arguments)
    start, state = time.monotonic(), stamp.state_of(ROOT, options.trust)
    if first := stamp.first_if_unchanged(options.folder, state):
        print("notebooks: nothing has changed since they were built; the first one:")
        print(options.folder / first)
        return 0
    print("notebooks: building them", flush=True)
    pages = build.build_all(Book(), CACHE)
    names = place.place_all(options.folder, pages)
    if options.trust:
        place.trust(options.folder, names)
    stamp.note(options.folder, state, names[0])
    print(f"notebooks: {len(names)} built in {time.monotonic() - start:.0f} s; the first one:")
    print(options.folder / names[0])
    return 0


if __name__ == "__main__":
    sys.exit(main())
