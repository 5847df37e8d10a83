"""Remove what was built: ``make clean``. .venv stays, and so do notebooks that a reader changed."""

import os
import shutil
from pathlib import Path

from tools.readers import place

NOTEBOOKS = Path("_build") / "notebooks"  # where readers work


def main():
    """Remove the caches and _build, or all in it but the notebooks if any was changed."""
    for folder in (".pytest_cache", ".ruff_cache", ".hypothesis"):
        shutil.rmtree(folder, ignore_errors=True)
    kept = place.changed(NOTEBOOKS) if NOTEBOOKS.is_dir() else []
    if not kept:
        shutil.rmtree("_build", ignore_errors=True)
        return
    for path in Path("_build").iterdir():
        if path != NOTEBOOKS:
            shutil.rmtree(path) if path.is_dir() else os.remove(path)
    print(f"clean: {NOTEBOOKS} stays, for your changes in {', '.join(kept)}")


if __name__ == "__main__":
    main()
