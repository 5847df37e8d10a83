"""The book as a whole: contents, house rules, one source for taught code."""

import ast
import inspect
import re

import nbformat
import pytest
from nbval.plugin import get_sanitize_patterns
from support.paths import ROOT
from support.samples.contents import toc_files

import d2lmini
from benchmarks.published.page.write import PAGE
from tools.readers.book import page_numbers

CHAPTERS = sorted((ROOT / "chapters").glob("*.ipynb"))


def cells(path, kind="code"):
    notebook = nbformat.read(path, as_version=4)
    return [cell for cell in notebook.cells if cell.cell_type == kind]


def tags(cell):
    return cell.metadata.get("tags", [])


def chapter_parameters():
    return pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)


def test_contents_and_files_agree():
    listed = {f for f in toc_files() if f.startswith("chapters/")}
    pages = {f"chapters/{path.stem}" for path in (ROOT / "chapters").glob("*.md")}
    assert PAGE.removesuffix(".md") in pages
    assert listed == {f"chapters/{path.stem}" for path in CHAPTERS} | pages
    for name in toc_files():
        assert any((ROOT / f"{name}{suffix}").exists() for suffix in (".ipynb", ".md")), name


@chapter_parameters()
def test_page_has_one_title(path):
    text = "\n".join(cell.source for cell in cells(path, "markdown"))
    assert len(re.findall(r"^# .+$", text, re.MULTILINE)) == 1


@chapter_parameters()
def test_cells_keep_the_house_rules(path):
    for number, cell in enumerate(cells(path), 1):
        where = f"{path.name}, code cell {number}"
        if number > 1:  # the imports, one name a line, may be more
            folded = {"hide-cell", "hide-input", "remove-cell"} & set(tags(cell))
            limit = 60 if folded else 15
            assert len(cell.source.splitlines()) <= limit, f"{where}: more than {limit} lines"
        assert cell.execution_count == number, f"{where}: never run, so nothing is compared"
        errors = [o for o in cell.outputs if o.output_type == "error"]
        assert not errors or "raises-exception" in tags(cell), f"{where}: a stored error"
        assert not re.search(r"\bimport \*|^%%time|clear_output|tqdm", cell.source, re.M), where
        assert not cell.source.rstrip().endswith(";"), f"{where}: ends with a semicolon"
        text = "".join(str(o.get("data", o.get("text"))) for o in cell.outputs)
        assert not re.search(r"0x[0-9a-f]{8,}|/home/|/root/|/tmp/|/Users/", text), where


@chapter_parameters()
def test_imports_come_first_and_from_public_names_only(path):
    code = cells(path)
    for number, cell in enumerate(code):
        tree = ast.parse(re.sub(r"^[%!].*$", "pass", cell.source, flags=re.MULTILINE))
        for node in tree.body:
            if not isinstance(node, ast.Import | ast.ImportFrom):
                continue
            assert number == 0 or "hide-cell" in tags(cell), f"{path.name}: import in cell {number}"
            module = node.module if isinstance(node, ast.ImportFrom) else node.names[0].name
            assert module.split(".")[0] != "d2l", "chapters never import d2l"
            if module.split(".")[0] == "d2lmini":
                assert not any(name.name.startswith("_") for name in node.names)
                assert "._" not in module


def without_docstring(function):
    """Return a function's syntax tree as text, without docstrings and comments."""
    for node in ast.walk(function):
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and ast.get_docstring(node):
            node.body = node.body[1:]
    return ast.dump(function)


def definitions(source):
    return [n for n in ast.parse(source).body if isinstance(n, ast.FunctionDef | ast.ClassDef)]


def taught():
    return [
        (path.stem, definition)
        for path in CHAPTERS
        for cell in cells(path)
        if "d2lmini" in tags(cell)
        for definition in definitions(cell.source)
    ]


def test_something_is_taught_by_every_name_of_training():
    names = {definition.name for _, definition in taught()}
    functions = [n for n, f in vars(d2lmini.training).items() if inspect.isfunction(f)]
    assert {n for n in functions if n[0] != "_"} <= names


@pytest.mark.parametrize(("chapter", "definition"), taught(), ids=lambda x: getattr(x, "name", x))
def test_taught_code_is_the_code_of_the_package(chapter, definition):
    twin = getattr(d2lmini, definition.name)
    (source,) = definitions(inspect.getsource(twin))
    assert without_docstring(definition) == without_docstring(source)


@pytest.mark.slow
def test_numbers_glued_are_used_and_numbers_used_are_glued():
    for path in CHAPTERS:
        outputs = [output for cell in cells(path) for output in cell.outputs]
        records = [o.metadata.scrapbook for o in outputs if "scrapbook" in o.get("metadata", {})]
        glued = [record.name for record in records]
        text = "\n".join(c.source for c in cells(path, "markdown"))
        used = re.findall(r"\{glue:(?:text|)\}`(\w+)", text)
        assert len(set(glued)) == len(glued), f"{path.name}: a name is glued twice"
        assert set(used) <= set(glued), f"{path.name}: not glued: {set(used) - set(glued)}"
        assert set(glued) <= set(used), f"{path.name}: never used: {set(glued) - set(used)}"


@pytest.mark.parametrize("name", ["sanitise.cfg", "sanitise-gpu.cfg"])
def test_every_sanitiser_is_read_and_compiles(name):
    text = (ROOT / "tests" / name).read_text()
    patterns = get_sanitize_patterns(text)  # nbval ignores a malformed pair silently
    assert len(patterns) == text.count("regex:") == text.count("\n[") >= 4
    for pattern, replacement in patterns:
        assert re.compile(pattern)
        assert replacement.strip()


def test_a_link_that_states_a_chapters_number_states_the_right_one():
    numbers = {name: number for name, number in page_numbers(ROOT).items() if number}
    pages = [*CHAPTERS, *(ROOT / "chapters").glob("*.md"), *ROOT.glob("*.md")]
    stated = [
        (path.name, int(number), name)
        for path in pages
        for number, name in re.findall(
            r"\[(?:[\w ]+ )?[Cc]hapter (\d+)\]\((?:chapters/)?([\w-]+)\.ipynb", path.read_text()
        )
    ]
    assert len(stated) > 20
    assert [s for s in stated if s[1] != numbers[f"chapters/{s[2]}"]] == []
