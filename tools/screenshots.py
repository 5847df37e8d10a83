"""Pictures of every page, to be looked at: ``python -m tools.screenshots [folder]``.

Takes them from the built book at three widths, light and dark. ``--readme`` writes the picture of
the README alone, `assets/page.png`.
"""

import argparse
import base64
import tempfile
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tools.browser import browser
from tools.visits import new_visitor, served, visit_all

ROOT = Path(__file__).parents[1]
BUILT = ROOT / "_build" / "html"
WIDTHS = (1600, 1024, 390)
THEMES = ("light", "dark")
STILL = "<style>* { transition: none !important; }</style>"
README_PAGE, README_WIDTH, README_HEIGHT = "chapters/multiple-gpus", 1280, 900


def take(visitor, width, height=None):
    """Return the page that is open as PNG, the whole of it if no height is given."""
    size = {"width": width, "deviceScaleFactor": 1, "mobile": False}
    visitor.call("Emulation.setDeviceMetricsOverride", height=height or 900, **size)
    visitor.ask("scrollTo(0, 0)")
    whole = height or visitor.ask("document.documentElement.scrollHeight")
    clip = {"x": 0, "y": 0, "width": width, "height": min(whole, 16000), "scale": 1}
    shot = visitor.call("Page.captureScreenshot", clip=clip, captureBeyondViewport=True)
    return base64.b64decode(shot["data"])


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
    """Return the README's picture: the beginning of a chapter."""
    with browser_and(built) as (tab, address):
        visitor = new_visitor(tab)
        visitor.visit(f"{address}/{README_PAGE}.html")
        return take(visitor, README_WIDTH, README_HEIGHT)


def main():
    """Take pictures as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", default=ROOT / "_build" / "screenshots", type=Path)
    parser.add_argument("--readme", action="store_true", help="write assets/page.png alone")
    arguments = parser.parse_args()
    if arguments.readme:
        (ROOT / "assets" / "page.png").write_bytes(readme_picture())
        return
    pages = sorted(p.relative_to(BUILT).as_posix()[:-5] for p in BUILT.rglob("*.html"))
    take_all(arguments.folder, [p for p in pages if p != "index" and p[0] != "_"])


if __name__ == "__main__":
    main()
