"""Pictures of every page, to be looked at: ``python -m tools.chromium.screenshots [folder]``.

Takes them from the built book at three widths, light and dark. ``--readme`` writes the pictures of
the two READMEs alone, `assets/page.png` and `assets/simgpu.png`.
"""

import argparse
import base64
import re
import subprocess
import sys
import tempfile
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tools.chromium.browser import browser
from tools.chromium.visits import new_visitor, served, visit_all

ROOT = Path(__file__).parents[2]
BUILT = ROOT / "_build" / "html"
WIDTHS = (1600, 1024, 390)
THEMES = ("light", "dark")
STILL = "<style>* { transition: none !important; }</style>"
README_PAGE, README_CODE = "chapters/auto-parallelism", "run and copy, overlapped"


def take(visitor, width, part=None):
    """Return the page that is open, laid out `width` wide, as PNG; of it only a part, if given."""
    size = {"width": width, "deviceScaleFactor": 1, "mobile": False}
    visitor.call("Emulation.setDeviceMetricsOverride", height=900, **size)
    visitor.ask("scrollTo(0, 0)")
    x, y, width, height = part() if part else (0, 0, width, _height(visitor))
    clip = {"x": x, "y": y, "width": width, "height": min(height, 16000), "scale": 1}
    shot = visitor.call("Page.captureScreenshot", clip=clip, captureBeyondViewport=True)
    return base64.b64decode(shot["data"])


def _height(visitor):
    return visitor.ask("document.documentElement.scrollHeight")


@contextmanager
def browser_and(folder):
    """Start a browser and a server of a folder; yield a page and the server's address."""
    with ExitStack() as stack:
        profile = stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True))
        yield stack.enter_context(browser(Path(profile))), stack.enter_context(served(folder))


def take_all(folder, pages, built=BUILT, widths=WIDTHS, themes=THEMES):
    """Write pictures of pages into a folder."""
    folder.mkdir(parents=True, exist_ok=True)

    def look(visitor, name):
        visitor.visit(f"{address}/{name}.html")
        visitor.ask(f"document.head.insertAdjacentHTML('beforeend', {STILL!r})")
        for theme in themes:
            visitor.ask(f"document.documentElement.dataset.theme = '{theme}'")
            for width in widths:
                path = folder / f"{name.rpartition('/')[2]}-{width}-{theme}.png"
                path.write_bytes(take(visitor, width))

    with browser_and(built) as (tab, address):
        visit_all(tab, pages, look, tabs=2)


def readme_picture(built=BUILT):
    """Return the README's picture: a cell of a chapter, and the timeline that it draws."""
    cells = "[...document.querySelectorAll('pre')]"
    cell = f"{cells}.find(pre => pre.textContent.includes({README_CODE!r}))"

    def part():
        box = f"(box => [box.left, box.top + scrollY])({cell}.getBoundingClientRect())"
        left, top = visitor.ask(box)
        return left - 44, top - 165, 820, 590

    with browser_and(built) as (tab, address):
        visitor = new_visitor(tab)
        visitor.visit(f"{address}/{README_PAGE}.html")
        return take(visitor, 1000, part)


def simgpu_picture():
    """Return the picture of simgpu's README: the page that its command writes of its script."""
    text = (ROOT / "simgpu" / "README.md").read_text(encoding="utf-8")
    script = re.search(r"```python\n(.*?)```", text, re.DOTALL)[1]
    command = re.search(r"^\$ simgpu (.*) train.py$", text, re.MULTILINE)[1].split()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "train.py").write_text(script, encoding="utf-8")
        command = [sys.executable, "-m", "simgpu", *command, "--timeline", "page.html", "train.py"]
        subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
        with browser_and(folder) as (tab, address):
            visitor = new_visitor(tab)
            visitor.visit(f"{address}/page.html")
            ends = "[...document.body.children].map(box => box.getBoundingClientRect().bottom)"
            return take(
                visitor, 1000, lambda: (0, 0, 1000, visitor.ask(f"Math.max(...{ends})") + 20)
            )


def main():
    """Take pictures as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", default=ROOT / "_build" / "screenshots", type=Path)
    parser.add_argument("--readme", action="store_true", help="write the READMEs' pictures alone")
    arguments = parser.parse_args()
    if arguments.readme:
        (ROOT / "assets" / "page.png").write_bytes(readme_picture())
        (ROOT / "assets" / "simgpu.png").write_bytes(simgpu_picture())
        return
    pages = sorted(p.relative_to(BUILT).as_posix()[:-5] for p in BUILT.rglob("*.html"))
    take_all(arguments.folder, [p for p in pages if p != "index" and p[0] != "_"])


if __name__ == "__main__":
    main()
