"""The book: how long a build takes, and how heavy its pages are."""

import shutil
import subprocess
from pathlib import Path

from benchmarks.measure import Row, Side, interleave, timed

ROOT = Path(__file__).parents[1]
PAGES = ROOT / "_build" / "html"


def rows(settings):
    sides = interleave({"cold": timed(cold_build), "warm": timed(warm_build)}, settings, warm_up=0)
    found = [Row("book", f"{label} build of all pages", "s", side) for label, side in sides.items()]
    if settings.tests:
        found.append(tests())
    return found + weights()


def tests():
    """Time ``make test``, once: it takes minutes."""
    side = Side(
        "make test", [timed(lambda: subprocess.run(["make", "test"], cwd=ROOT, check=True))()]
    )
    return Row("book", "make test", "s", side, exact=True, note="make test: one run")


def cold_build():
    shutil.rmtree(ROOT / "_build", ignore_errors=True)
    warm_build()


def warm_build():
    from tools.build_book import build

    if build() != 0:
        raise RuntimeError("the book does not build; run make book to see why")


def weights():
    """Return the bytes of each page, and of everything that all pages share."""
    pages = sorted(path for path in PAGES.rglob("*.html") if "_static" not in path.parts)
    found = [
        _exact(f"page {path.relative_to(PAGES)}", path.stat().st_size + _images(path))
        for path in pages
        if path.name not in ("genindex.html", "search.html")
    ]
    static = sum(p.stat().st_size for p in (PAGES / "_static").rglob("*") if p.is_file())
    return [*found, _exact("style, scripts and fonts, all pages together", static)]


def _images(page):
    """Add up the bytes of the images that a page shows."""
    text = page.read_text(encoding="utf-8")
    images = [p for p in (PAGES / "_images").glob("*") if f"_images/{p.name}" in text]
    return sum(image.stat().st_size for image in images)


def _exact(case, value):
    note = "with its images" if case.startswith("page") else ""
    return Row("book", case, "B", Side("d2lmini", [value]), exact=True, note=note)
