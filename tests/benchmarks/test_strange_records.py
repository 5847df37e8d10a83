"""What strangers write into a record is text on the page, and never markup."""

import json
import subprocess
import sys
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from bs4 import BeautifulSoup
from myst_parser.config.main import MdParserConfig
from myst_parser.mdit_to_docutils.base import DocutilsRenderer
from myst_parser.parsers.mdit import create_md_parser
from support.benchmark_data import example_record, side
from support.paths import ROOT

from benchmarks import page, records
from benchmarks.measure import Row
from benchmarks.records import Record

NAME = "2026-01-31-1234-example-cpu-2-00ghz-2-cores.json"

HOSTILE = (
    *("<script>alert(1)</script>", "<!-- ", "&lt;b&gt;", "{raw}`html <b>`", "```{raw} html"),
    *(":::{raw} html", "~~~{raw} html", "[x](javascript:alert(1))", "![x](http://x.example/x.png)"),
    *("<http://x.example>", "[^1]: note", "[x]: http://x.example", "a | b", "x\\|y", "\\", "`"),
    *("$x$", "$$x$$", "\\begin{a}x\\end{a}", "*b* _i_ **b** __b__", "# heading #", "(target)="),
    *("% comment", "+++", "---", "1. one", "- item", "> quote", "{{ x }}", "[x]{.a}", "{#id .a}"),
    *("*x*{.a}", "{download}`../x`", "$\\frac{", "x\u00a0 = y", "term\u2003: x"),
)


def tokens(text):
    """Return the structure and the words of a page, as MyST understands them."""
    config = yaml.safe_load((ROOT / "_config.yml").read_text())
    extensions = set(config["parse"]["myst_enable_extensions"])
    parser = create_md_parser(MdParserConfig(enable_extensions=extensions), DocutilsRenderer)
    structure, words = [], []
    for token in parser.parse(text):
        for part in token.children if token.type == "inline" else [token]:
            if part.type == "text":
                words.append(part.content)
            else:
                structure.append((part.type, part.tag, part.info))
    return structure, " ".join(words)


def strange_record(texts):
    """Make a record with each of the texts in all places that have one."""
    record = example_record()
    gpus = [{"name": text, "memory": 1} for text in texts]
    hardware = {**record.hardware, "cpu": texts[0], "gpus": gpus}
    versions = record.versions | dict(zip(("python", "torch", "d2l"), texts, strict=False))
    rows = [
        Row(name, text, "s", side(text, 1), side(text + ".", 2), goal=1, note=text)
        for text in texts
        for name in ("lenet", text)
    ]
    for x in (1, 2):
        rows += [
            Row(name, f"{text} {x}", "s", side(text, 1), plot=text, x=x)
            for text in texts[::9]
            for name in ("allreduce", text)
        ]
    return replace(record, hardware=hardware, versions=versions, rows=rows)


@pytest.fixture(scope="module")
def pages():
    """Return the files that a hostile record gives, and those of one with plain words."""
    plain = [f"word{i}" for i in range(len(HOSTILE))]
    problems = {Path(HOSTILE[1]): f"{HOSTILE[0]}\nmore"}
    return [
        page.render({Path(NAME): strange_record(texts)}, problems) for texts in (HOSTILE, plain)
    ]


def test_a_strange_record_is_valid():
    record = strange_record(HOSTILE)
    assert Record.from_dict(json.loads(records.to_json(record))) == record


def test_nothing_that_a_stranger_writes_is_markup(pages):
    found, wanted = pages
    structure, words = tokens(found[page.PAGE])
    assert structure == tokens(wanted[page.PAGE])[0]
    for text in HOSTILE:
        assert " ".join(text.split()) in " ".join(words.split()), text
    assert found.keys() == wanted.keys()
    for name in found.keys() - {page.PAGE}:
        kinds = {element.tag.split("}")[1] for element in ET.fromstring(found[name]).iter()}
        assert not kinds & {"script", "a", "image", "foreignObject"}


def elements(folder, files):
    """Build a page with Sphinx, with the book's parser; return its elements and its words."""
    source = folder / "source"
    for name, content in files.items():
        path = source / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    (source / "records" / NAME).write_text("{}")
    enabled = yaml.safe_load((ROOT / "_config.yml").read_text())["parse"]["myst_enable_extensions"]
    settings = {"extensions": "myst_parser", "root_doc": "records"}
    settings |= {"myst_enable_extensions": ",".join(enabled), "html_theme": "basic"}
    command = [sys.executable, "-m", "sphinx", "-C", "-q", str(source), str(folder / "html")]
    for name, value in settings.items():
        command += ["-D", f"{name}={value}"]
    subprocess.run(command, check=True, timeout=120)
    html = BeautifulSoup((folder / "html" / "records.html").read_text(), "html.parser")
    body = html.find(class_="body")
    return [(e.name, sorted(set(e.attrs) - {"id"})) for e in body.find_all()], body.get_text()


def test_the_built_page_has_no_element_of_a_stranger(pages, tmp_path):
    (found, words), (wanted, _) = (
        elements(tmp_path / name, files)
        for name, files in zip(("hostile", "plain"), pages, strict=True)
    )
    assert found == wanted
    assert "<script>alert(1)</script>" in words
