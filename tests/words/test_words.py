"""What tools and scripts say to readers: all of it is found, and any language takes its place."""

import copy
import json
import re
import shutil
import subprocess

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from support.paths import ROOT
from support.samples import small_book

from tools import classroom, notebooks, words
from tools.pages import folds, mended
from tools.readers import build, covered, markup
from tools.readers.book import Book
from tools.words import lines


def loud(english):
    """Return a string in a made-up language: upper case, its fields as they are."""
    parts = re.split(r"(\{\w+\})", english)
    parts[::2] = map(str.upper, parts[::2])
    return "".join(parts)


@pytest.fixture(scope="module")
def found():
    return words.found()


@pytest.fixture
def made_up(found, monkeypatch):
    """Have all strings said in the made-up language; return its table."""
    table = {english: loud(english) for english in found}
    monkeypatch.setattr(words, "table", lambda: table)
    return table


# The table


def test_strings_are_said_with_their_fields():
    assert words.say("{n} of {all}", n=1, all=2) == "1 of 2"
    assert words.say("{n} of {all}") == "{n} of {all}", "a template"
    assert words.say("{n}", n="{all}", all=3) == "{all}", "values are left alone"


@pytest.mark.slow
def test_a_copy_says_what_its_table_has(made_up):
    assert words.say("Fig. {number}", number="3.1") == "FIG. 3.1"
    assert words.say("nobody says this") == "nobody says this"
    assert words.spellings("Summary") == ("SUMMARY", "Summary")


def test_a_table_is_read_from_the_root_of_the_copy(tmp_path, monkeypatch):
    (tmp_path / words.FILE).write_text('{"Show": "Göster"}', encoding="utf-8")
    monkeypatch.setattr(words, "ROOT", tmp_path)
    words.table.cache_clear()
    try:
        assert words.say("Show") == "Göster"
    finally:
        monkeypatch.undo()
        words.table.cache_clear()
    assert words.table() == {}, "the book itself is English"


SAID = """
from tools.words import say, spellings

say("a {n}", n=1)
spellings("b")
say(
    "c "
    "d"
)
"""


def test_strings_of_programs_and_scripts_are_found_in_order():
    assert words.in_program(SAID) == ["a {n}", "b", "c d"]
    with pytest.raises(ValueError, match="line 1: say"):
        words.in_program("say(name)")
    script = 'say("a", { n });\nx(say("b \\"c\\" "\n  + "d")); this.say("no"); essay("no")'
    assert words.in_script(script) == ["a", 'b "c" d']


KNOWN = [
    "Your guess?", "Guess first, or show the answer", "Show all code", "Fig. {number}",
    "Checked: {what}", "how to cite", "Print without code", "Reset to the book's version",
    "Is my run reasonable?", "Allreduce, step by step", "What each rank has summed",
    "Zoom timeline {n}", "Glossary: {term}", "Link to this heading", "Exercise {n}",
    "The numbers in the text are those of the stored outputs; a run does not change them.",
    "{gpus} (simulated) take {times} times as long as one.", "*{words}.*", "On your own job",
]  # fmt: skip


def test_what_the_pages_say_is_found(found):
    assert len(found) == len(set(found)) > 400
    assert set(KNOWN) <= set(found)


UNSAID = re.compile(r'"((?:\\.|[^"\\\n])*)"|`((?:\\.|[^`\\])*)`')
SENTENCE = re.compile(r"[A-Za-z]{2,},? [a-z]{2,}")
# Selectors, classes, code, what the search compares, and what stands in the console.
NO_WORDS = re.compile(
    r"use strict|\barticle\b|\bcell_|\.hero|\.math|div\.|\bh2, h3|headerlink|docutils|highlight-"
    r"|^output |simgpu compare|\ball and are\b|and as assert| from global if|pinned memory"
    r"|data loader|out of memory|ring attention|mixture of experts|expert parallelism|stays static"
    r"|anonymous|\{display:flex"
)


def test_no_script_says_a_sentence_past_the_table():
    """Strings in quotes that are words, and not given to `say`."""
    left = []
    for place in words.SCRIPTS:
        for path in sorted(ROOT.glob(place)):
            if path.name in ("presets.js", "published.js"):  # data
                continue
            script = re.sub(r"(?s)/\*.*?\*/", "", path.read_text(encoding="utf-8"))
            script = re.sub(r"(?m)(?:^|\s)//.*$", "", script)
            script = re.sub(r'"([^"]+)": say\("\1"\)', "", script)  # a word, and what it is called
            script = words._IN_SCRIPT.sub("say(", script)
            for one, other in UNSAID.findall(script):
                text = one or re.sub(r"\$\{[^}]*\}", "", other)
                if SENTENCE.search(text) and not NO_WORDS.search(text):
                    left.append((path.name, text))
    assert left == []


@pytest.mark.slow
def test_a_table_is_checked(made_up):
    assert list(words.problems(made_up)) == []
    wrong = made_up | {"Fig. {number}": "FIG.", "*{words}.*": "{words}.", "old": "OLD"}
    del wrong["Show"]
    said = list(words.problems(wrong))
    assert len(said) == 4
    for word in ("Fig. {number}", "*{words}.*", "'Show'", "'old'"):
        assert any(word in problem for problem in said), word


# Scripts


def say_in_node(script, call):
    """Return what a call gives after a script."""
    node = shutil.which("node")
    if not node:
        pytest.skip("no node runs scripts here")
    program = f"const window = globalThis;\n{script}\nprocess.stdout.write(JSON.stringify({call}))"
    done = subprocess.run([node, "-e", program], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


@pytest.mark.process
def test_scripts_say_the_same():
    english = (ROOT / "assets" / "words.js").read_text(encoding="utf-8")
    assert words.EMPTY in english
    call = 'say("{n} of {all} {x}", { n: 1, all: 2 })'
    assert say_in_node(english, call) == "1 of 2 {x}"
    own = words.script({"Show": "Göster", "Fig. {number}": "Şekil {number}"})
    assert "Şekil" not in own, "scripts do not say this"
    assert say_in_node(own, 'say("Show")') == "Göster"
    assert say_in_node(own, 'say("Back")') == "Back"


# Tags and lines of the chapters


def folded(source, *tags):
    return new_code_cell(source, metadata={"tags": ["hide-cell", *tags]})


def normal(cell):
    notebook = notebooks.normalise(new_notebook(cells=[copy.deepcopy(cell)]))
    return notebook.cells[0].metadata.get("tags", [])


@pytest.mark.parametrize(
    ("line", "tag"),
    [
        ("# Imports", "imports"),
        ("# Checked: a < b", "check"),
        ("# Solution", "solution"),
        ("# Helper: counts", "helper"),
        ("# How this picture is drawn", "picture"),
        ("# For the curious: why", "curious"),
    ],
)
def test_the_first_word_of_a_fold_is_a_tag(line, tag):
    cell = folded(f"{line}\nx = 1")
    assert normal(cell) == sorted(["hide-cell", tag])
    assert normal(folded("# Helper: is none any more\nx", tag)) == ["helper", "hide-cell"]
    cell.metadata["tags"] = []
    assert normal(cell) == [], "it is seen"


def test_a_copy_keeps_the_tags(made_up):
    cell = folded("# 검사: 둘 다 같다\nx = 1", "check")
    assert normal(cell) == ["check", "hide-cell"]


TITLE = "# A title\n\n*5 minutes to read the core, 7 to read all, 35 for the exercises, "
TITLE += "1 minute to run.*\n\nWords."
EXERCISE = "### Exercise 1: A\n\n*On paper, easy, 5 minutes.*\n\nWords."


def test_lines_of_a_copy_are_in_its_language(made_up):
    cells = [new_markdown_cell(TITLE), new_markdown_cell(EXERCISE)]
    once = notebooks.normalise(new_notebook(cells=cells))
    assert (
        "*5 MINUTES TO READ THE CORE, 7 TO READ ALL, 35 FOR THE EXERCISES, 1 MINUTE TO RUN.*"
        in (once.cells[0].source)
    ), "the minutes are those of the English"
    assert once.cells[0].source.endswith("\n\nWords.")
    assert "*ON PAPER, EASY, 5 MINUTES.*" in once.cells[1].source
    assert notebooks.normalise(copy.deepcopy(once)) == once
    found = lines.time_line(once.cells[0].source)
    assert (found["read"], found["all"], found["run"]) == ("5", "7", "1")
    assert lines.exercise_lines(once.cells[1].source) == [("On paper", "easy", 5)]
    assert lines.exercise_lines(EXERCISE) == [("On paper", "easy", 5)], "not translated yet"


def test_the_line_in_another_order():
    own = lines.time_words(str) | {
        "core": ("全部{all}分, 核心{read}分", "全部{all}分, 核心{read}分"),
        "line": "*阅读: {words}。*",
    }
    line = lines.joined_time_line(own, (own["core"][0], "", "{run}分运行"))
    assert line == "*阅读: 全部{all}分, 核心{read}分, {run}分运行。*"
    found = re.search(words.pattern(line), "*阅读: 全部7分, 核心5分, 3分运行。*")
    assert found.groupdict() == {"all": "7", "read": "5", "run": "3"}


# What readers get of a copy


@pytest.fixture
def translated(made_up, tmp_path):
    """Return the book of a copy: titles and first comments are translated, tags are not."""
    root = small_book.write(tmp_path)
    path = root / "chapters" / "one.ipynb"
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        for english in ("# Imports", "# Solution", "# Checked: x", "## Exercises"):
            cell.source = re.sub(rf"(?m)^{english}", english.upper(), cell.source)
        cell.source = re.sub(r"(?m)^### Exercise (\d)", r"### EXERCISE \1", cell.source)
    notebooks.normalise(notebook)
    nbformat.write(notebook, path)
    return Book(root)


@pytest.mark.slow
def test_readers_notebooks_of_a_copy(translated):
    page = translated.pages["chapters/one"]
    cells = build.build_page(translated, page).notebook.cells
    sources = [cell.source for cell in cells]
    assert r"*CHECKED: X is \<2> times \*y\*.*" in sources
    assert "1 MINUTE TO RUN.* *THE NUMBERS IN THE TEXT" in sources[0]
    assert "**FIG. 1.1** The *first* figure" in sources[0]
    assert sources[-2].startswith("## SOURCES\n") or sources[-1].startswith("## SOURCES\n")
    first = next(n for n, s in enumerate(sources) if s.startswith("### EXERCISE 1"))
    second = next(n for n, s in enumerate(sources) if s.startswith("### EXERCISE 2"))
    kinds = [s.partition("\n")[0] for s in sources[first + 1 : second]]
    assert kinds == ["", "# SOLUTION", "<details>"]
    assert "<summary>MORE ABOUT THIS EXERCISE</summary>" in sources[second - 1]
    assert sources[second + 1] == ""
    wanted = classroom.exercises(page.notebook)
    assert list(wanted) == [1]
    own = classroom.without_solutions(new_notebook(cells=cells), wanted)
    left = [cell.source for cell in own.cells]
    assert not any("SOLUTION\n" in s for s in left)
    assert "# YOUR SOLUTION" in left


def test_a_check_of_a_copy_does_not_say_the_answer(made_up):
    guess = new_markdown_cell(":::{guess}\n:right: 1\n:checked: a\n\n- a\n- b\n:::")
    cells = [guess, new_code_cell("a"), folded("# 검사: 길다\nassert a", "check")]
    assert covered.without_answers(cells)[2].source == "# HELPER: CHECKS THE ANSWER\nassert a"


def test_what_says_that_a_paragraph_is_english_is_dropped(tmp_path):
    book = Book(small_book.write(tmp_path))
    page = build.text.PageText(book, book.pages["chapters/one"], None)
    source = "Bir.\n\n{.untranslated .language-en}\nTwo *words*.\n\n- {.a}`x`"
    assert markup.convert(source, page).startswith("Bir.\n\nTwo *words*.\n\n- ")


# Pages


def test_pages_of_a_copy_are_mended_in_its_language(made_up):
    page = '<a class="headerlink" title="Link to this heading">#</a>'
    assert 'title="LINK TO THIS HEADING"' in mended.mend(page)
    page = '<button class="btn search-button-field x" title="검색" aria-label="검색">y</button>'
    assert mended.mend(page) == '<button class="btn search-button-field x">y</button>'
    page = '<a class="reference internal" href="x.html">A</a><details><summary>'
    page += '<span class="toctree-toggle"></span></summary></details>'
    once = mended.mend(page)
    assert '<summary aria-label="PAGES BELOW: A">' in once
    assert mended.mend(once) == once
    assert folds.capital("kaç") == "kaç", "Turkish has two letters i"


@pytest.mark.parametrize("mark", ["\uff0c", "\u3002", "\u3001", "\uff1b", "\uff1a", "\uff09", "'"])
def test_no_line_begins_with_the_comma_of_another_language(mark):
    formula = '<span class="math notranslate"><math display="inline"><mi>n</mi></math></span>'
    whole = f'<span class="whole">{formula}{mark}</span>'
    assert mended.mend(f"<p>{formula}{mark}x</p>").startswith(f"<p>{whole}")


def test_scripts_of_the_theme_are_said_in_the_language(made_up, tmp_path):
    script = "const m = {'copy': 'Copy', x: '<button class=\"copybtn'};"
    (tmp_path / "copybutton.js").write_text(script)
    mended.mend_scripts(tmp_path)
    made = (tmp_path / "copybutton.js").read_text()
    assert "'copy': 'COPY'" in made
    assert 'aria-label="COPY"' in made
