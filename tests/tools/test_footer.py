"""The foot of the pages."""

import re
import subprocess

import pytest
from support.paths import ROOT

from tools.pages import footer


def test_the_version_is_that_of_the_package(tmp_path):
    (tmp_path / "simgpu").mkdir()
    (tmp_path / "simgpu" / "__init__.py").write_text('"""A package."""\n\n__version__ = "3.1.4"\n')
    assert footer.version(tmp_path) == "3.1.4"
    assert f"## {footer.version()}\n" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"\nversion: {footer.version()}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


@pytest.mark.process
def test_the_date_is_that_of_the_last_commit(tmp_path):
    assert footer.date(tmp_path) == ""
    git = ["git", "-C", str(tmp_path), "-c", "user.name=x", "-c", "user.email=x@localhost"]
    subprocess.run([*git, "init", "-q"], check=True)
    day = {"GIT_COMMITTER_DATE": "2021-03-04T12:00:00Z", "PATH": "/usr/bin:/bin"}
    subprocess.run([*git, "commit", "-qm", "x", "--allow-empty"], check=True, env=day)
    assert footer.date(tmp_path) == "2021-03-04"


def test_a_mistake_can_be_reported_where_there_is_an_address():
    without = footer.foot("../intro.html", "", "chapters/devices", "Version 1")
    assert "mistake" not in without
    assert 'href="../intro.html#cite"' in without
    found = footer.foot("intro.html", "https://host.example/a/b/", "chapters/devices", "Version 1")
    (link,) = re.findall(r'href="(https:[^"]*)"', found)
    assert link == "https://host.example/a/b/issues/new?title=Mistake%20in%20chapters%2Fdevices"


def test_the_front_page_and_the_repository_cite_the_same():
    front = (ROOT / "intro.md").read_text(encoding="utf-8")
    cff = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert "(cite)=" in front
    for name in ("title", "year"):
        said = re.search(rf"  {name} += {{(.*)}}", front)[1]
        assert re.search(rf'^  {name}: "?{said}"?$', cff, re.MULTILINE)
