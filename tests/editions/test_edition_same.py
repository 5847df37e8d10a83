"""An edition may change words, and nothing else."""

import copy
import shutil

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from support.paths import ROOT

from tools.editions import same

TEXT = "It took {glue:text}`time` s {cite:p}`li2020pytorch`, see {numref}`figure %s <fig-a>`."
TRANSLATED = (
    "Es dauerte {glue:text}`time` s {cite:p}`li2020pytorch`, siehe {numref}`Abb. %s <fig-a>`."
)
CODE = '# Checked: it is fast.\nprint(f"{x:.1f} seconds", 2 * x)'
LABEL = "(sec-a)=\n## A section\n\n:::{figure-md} fig-a\n![x](a.svg)\n:::"


def page(*sources):
    cells = [
        new_code_cell(s) if s.startswith(("#", "print")) else new_markdown_cell(s) for s in sources
    ]
    return new_notebook(cells=cells)


ORIGINAL = page(TEXT, CODE, LABEL)


def test_translated_words_are_no_difference():
    label = LABEL.replace("A section", "Ein Abschnitt")
    code = CODE.replace("it is fast", "es ist schnell")
    assert list(same.differences(ORIGINAL, page(TRANSLATED, code, label))) == []


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (page(TEXT, CODE), "cell 3: no such cell"),
        (page(TEXT, CODE, LABEL, "More."), "cell 4: an additional cell"),
        (page(TEXT, "Text.", LABEL), "cell 2: markdown in place of code"),
        (page(TEXT, CODE.replace("2 * x", "3 * x"), LABEL), "cell 2: other code"),
        (page(TEXT, CODE.replace("{x", "{y"), LABEL), "cell 2: other code"),
        (page(TEXT, CODE.replace(" seconds", " Sekunden"), LABEL), "cell 2: other code"),
        (page(TEXT.replace("`time`", "`Zeit`"), CODE, LABEL), "cell 1: not in the text: glue:text"),
        (page(TEXT.replace("<fig-a>", "<fig-b>"), CODE, LABEL), "cell 1: not in the text: numref"),
        (page(TEXT, CODE, LABEL.replace("sec-a", "abs-a")), "cell 3: not in the text: label sec-a"),
        (page(TEXT, CODE, LABEL.replace("} fig-a", "} fig-b")), "not in the text: figure fig-a"),
        (page(TEXT + " {eq}`b`", CODE, LABEL), "cell 1: only in the translation: eq b"),
    ],
)
def test_anything_else_is_a_difference(changed, said):
    (found,) = same.differences(ORIGINAL, changed)
    assert said in found


def test_tags_are_kept():
    changed = copy.deepcopy(ORIGINAL)
    changed.cells[1].metadata.tags = ["hide-cell"]
    assert list(same.differences(ORIGINAL, changed)) == ["cell 2: other tags"]


def test_outputs_are_kept_but_for_glued_numbers():
    cell = new_code_cell("glue('x', 1.5)")
    kind = "application/papermill.record/text/plain"
    glued = new_output("display_data", {kind: "'1.5'"}, metadata={"scrapbook": {"name": "x"}})
    cell.outputs = [glued, new_output("stream", text="1.5 s")]
    changed = copy.deepcopy(cell)
    changed.outputs[0].data[kind] = "'1,5'"
    assert list(same.differences(new_notebook(cells=[cell]), new_notebook(cells=[changed]))) == []
    changed.outputs[1].text = "1,5 s"
    found = same.differences(new_notebook(cells=[cell]), new_notebook(cells=[changed]))
    assert list(found) == ["cell 1: other outputs"]


def test_a_missing_chapter_is_noticed(tmp_path):
    (tmp_path / "chapters").mkdir()
    shutil.copy(ROOT / "chapters" / "devices.ipynb", tmp_path / "chapters" / "other.ipynb")
    assert list(same.compare(tmp_path, ROOT)) == ["other.ipynb: not there"]
    assert list(same.compare(tmp_path / "nowhere", ROOT)) == [
        f"{tmp_path}/nowhere: no chapters there"
    ]


def test_code_with_magics_is_compared_as_well():
    assert same.skeleton("%matplotlib inline\nx = 1") != same.skeleton("%matplotlib inline\nx = 2")
