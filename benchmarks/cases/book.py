"""The book: how long a build takes, and how heavy its pages are."""

import shutil
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

from benchmarks.measure import Row, Side, interleave, timed

ROOT = Path(__file__).parents[2]


def rows(settings):
    with tempfile.TemporaryDirectory() as folder:  # not where make book builds
        variants = {
            "cold": timed(partial(cold_build, folder)),
            "warm": timed(partial(warm_build, folder)),
        }
        for name, side in interleave(variants, settings, warm_up=0).items():
            yield Row("book", f"{name} build", "s", side)
        yield from weights(Path(folder) / "_build" / "html")


def cold_build(folder):
    shutil.rmtree(Path(folder) / "_build", ignore_errors=True)
    warm_build(folder)


def warm_build(folder):
    command = [sys.executable, "tools/build_book.py", "--path-output", folder]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"the book does not build:\n{done.stdout[-2000:]}")


def weights(html):
    """Yield the bytes of each page, and of everything that all pages share."""
    for path in sorted(html.rglob("*.html")):
        if "_static" not in path.parts and path.name not in ("genindex.html", "search.html"):
            num_bytes = path.stat().st_size + _images(path, html)
            name = path.relative_to(html).as_posix()
            yield _weight(f"page {name}", num_bytes, note="page: HTML and its images")
    static = sum(p.stat().st_size for p in (html / "_static").rglob("*") if p.is_file())
    yield _weight("style, scripts and fonts of all pages", static)


def _weight(case, num_bytes, **about):
    return Row("book", case, "B", Side("d2lmini", [num_bytes]), **about)


def _images(page, html):
    """Add up the bytes of the images that a page shows."""
    text = page.read_text(encoding="utf-8")
    images = [path for path in (html / "_images").glob("*") if f"_images/{path.name}" in text]
    return sum(image.stat().st_size for image in images)
