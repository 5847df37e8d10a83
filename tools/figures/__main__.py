"""Draw every figure again: ``python -m tools.figures``."""

from tools.figures.catalogue import IMAGE_DIR, render_all

IMAGE_DIR.mkdir(parents=True, exist_ok=True)
for name, svg in render_all().items():
    path = IMAGE_DIR / name
    path.write_text(svg, encoding="utf-8")
    print(f"wrote {path}")
