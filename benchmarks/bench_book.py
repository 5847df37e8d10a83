"""The book: how long a build takes, and how heavy its pages are."""

import contextlib
import io
import shutil
import subprocess
import tempfile
from functools import partial
from pathlib import Path

from benchmarks.measure import Row, Side, interleave, timed

ROOT = Path(__file__).parents[1]


def rows(settings):
    with tempfile.TemporaryDirectory() as folder:  # not where make book builds
        variants = {
            "cold": timed(partial(cold_build, folder)),
            "warm": timed(partial(warm_build, folder)),
        }
        sides = interleave(variants, settings, warm_up=0)
        found = [Row("book", f"{name} build", "s", side) for name, side in sides.items()]
        found += weights(Path(folder) / "_build" / "html")
    if settings.tests:
        found.append(tests())
    return found


def cold_build(folder):
    shutil.rmtree(Path(folder) / "_build", ignore_errors=True)
    warm_build(folder)


def warm_build(folder):
    from tools.build_book import build

    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        status = build("--path-output", folder)
    if status != 0:
        raise RuntimeError(f"the book does not build:\n{printed.getvalue()[-2000:]}")


def tests():
    """Time ``make test``, once: it takes minutes."""
    seconds = timed(lambda: subprocess.run(["make", "test"], cwd=ROOT, check=True))()
    side = Side("make test", [seconds])
    return Row("book", "make test", "s", side, exact=True, note="make test: one run")


def weights(html):
    """Return the bytes of each page, and of everything that all pages share."""
    pages = sorted(path for path in html.rglob("*.html") if "_static" not in path.parts)
    found = [
        _exact(
            f"page {path.relative_to(html).as_posix()}", path.stat().st_size + _images(path, html)
        )
        for path in pages
        if path.name not in ("genindex.html", "search.html")
    ]
    static = sum(p.stat().st_size for p in (html / "_static").rglob("*") if p.is_file())
    return [*found, _exact("style, scripts and fonts of all pages", static)]


def _images(page, html):
    """Add up the bytes of the images that a page shows."""
    text = page.read_text(encoding="utf-8")
    images = [path for path in (html / "_images").glob("*") if f"_images/{path.name}" in text]
    return sum(image.stat().st_size for image in images)


def _exact(case, value):
    note = "page: HTML and its images" if case.startswith("page") else ""
    return Row("book", case, "B", Side("d2lmini", [value]), exact=True, note=note)
