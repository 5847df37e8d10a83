"""Buttons that open a chapter elsewhere: none without an address, the right ones with it."""

import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from support import small_book
from support.paths import ROOT

from tools.pages import icons, launch


def built(root, address):
    """Build the small book with the book's own settings of buttons; return where they lead."""
    own = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))
    settings = {name: own[name] for name in ("repository", "launch_buttons")}
    assert settings["repository"]["url"] == "", "off by default"
    settings["repository"]["url"] = address
    settings["sphinx"] = {"local_extensions": {"tools.pages.launch": str(ROOT)}}
    small_book.write(root)
    (root / "_config.yml").write_text(yaml.safe_dump(settings), encoding="utf-8")
    command = [str(Path(sys.executable).parent / "jupyter-book"), "build", str(root)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "not supported" not in done.stdout + done.stderr
    page = (root / "_build" / "html" / "chapters" / "one.html").read_text(encoding="utf-8")
    links = re.findall(r'<a href="([^"]+)"[^>]*btn-launch-buttons|<a href="(https?:[^"]+)"', page)
    hosts = ("mybinder.org", "colab.research.google.com", "github.com/executablebooks")
    return [link for pair in links for link in pair if any(host in link for host in hosts)], page


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("", []),
        (
            "https://github.com/example/multi-gpu",
            [
                "https://mybinder.org/v2/gh/example/multi-gpu/main?urlpath=lab/tree/chapters/one.ipynb",
                "https://colab.research.google.com/github/example/multi-gpu/blob/main/chapters/one.ipynb",
            ],
        ),
    ],
)
def test_buttons_follow_the_address(tmp_path, address, expected):
    found, page = built(tmp_path, address)
    assert sorted(set(found)) == sorted(expected)
    assert ("fa-rocket" in page) == bool(expected)


@pytest.mark.parametrize(
    ("address", "colab"),
    [("https://github.com/a/b", "https://c.example"), ("https://gitlab.com/a/b", "")],
)
def test_colab_opens_what_github_has(address, colab):
    buttons = {"colab_url": "https://c.example", "binderhub_url": "https://b.example"}
    options = {"repository_url": address, "launch_buttons": buttons}
    launch.choose(None, SimpleNamespace(html_theme_options=options))
    expected = {"colab_url": colab, "binderhub_url": "https://b.example"}
    assert options["launch_buttons"] == expected


def test_the_book_has_the_icon_of_the_buttons():
    assert "data:image/svg+xml" in icons.sheet({"rocket"})
