"""Draw figures again, by default all: ``python -m tools.figures strip-zero.svg``."""

import sys

from tools.figures.catalogue import FIGURES, IMAGE_DIR

IMAGE_DIR.mkdir(parents=True, exist_ok=True)
for name in sys.argv[1:] or FIGURES:
    path = IMAGE_DIR / name
    path.write_text(FIGURES[name]().svg(), encoding="utf-8")
    print(f"wrote {path}")
