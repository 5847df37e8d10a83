"""The foot of every page: version, licences, how to cite, and where to report a mistake."""

import re
import subprocess
from html import escape
from pathlib import Path
from urllib.parse import quote

from tools.words import say

ROOT = Path(__file__).parents[2]


def version(root=ROOT):
    """Return the version of the package, which is that of the book."""
    text = (root / "simgpu" / "__init__.py").read_text(encoding="utf-8")
    return re.search(r'^__version__ = "([^"]+)"', text, re.MULTILINE)[1]


def date(root=ROOT):
    """Return the day of the last commit; an empty string in a copy that is no repository."""
    command = ["git", "-C", str(root), "log", "-1", "--format=%cs"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def dated():
    """Return the version of this repository, and the day of its last commit."""
    if day := date():
        return say("Version {version}, {date}", version=version(), date=day)
    return say("Version {version}", version=version())


def foot(front, repository="", page="", said=None):
    """Return the foot of a page as HTML.

    Parameters
    ----------
    front : str
        The link from the page to the front page, which says how to cite.
    repository : str, default ""
        Address of the repository; without one nobody is asked to report a mistake.
    page : str, default ""
        Name of the page.
    said : str, optional
        Version and date; default: those of this repository.
    """
    parts = [
        escape(said or dated()),
        say("text and figures: CC BY 4.0, code: MIT licence"),
        f'<a href="{front}#cite">{say("how to cite")}</a>',
    ]
    if repository:
        issue = f"{repository.rstrip('/')}/issues/new?title={quote(f'Mistake in {page}', safe='')}"
        parts.append(f'<a href="{escape(issue)}">{say("report a mistake")}</a>')
    return f'<p class="d2l-foot">{" · ".join(parts)}</p>'


def setup(app):
    """Register with Sphinx."""
    said = []

    def add(app, page, template, context, doctree):
        if app.builder.format != "html" or "pathto" not in context:
            return
        said[:] = said or [dated()]
        front = context["pathto"](app.config.root_doc).rstrip("#")  # "#" on the page itself
        repository = app.config.html_theme_options.get("repository_url", "")
        context["theme_extra_footer"] = foot(front, repository, page, said[0])

    app.connect("html-page-context", add)
