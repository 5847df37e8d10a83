"""The text of readers' notebooks: numbers, references and citations instead of MyST's markup."""

import re

import nbformat
import pytest
from support.samples import small_book

from tools.readers import build, markup, text
from tools.readers.book import Book
from tools.readers.sources import Sources


@pytest.fixture(scope="module")
def book(tmp_path_factory):
    return Book(small_book.write(tmp_path_factory.mktemp("book")))


@pytest.fixture(scope="module")
def convert(book):
    """Return a function that converts a text of the first chapter."""
    page = book.pages["chapters/one"]
    sources = Sources(book.root / "references.bib")
    own = text.PageText(book, page, sources)
    own.numbers = {"n": "'1,024'", "x": "1.25"}
    return own.convert


@pytest.fixture(scope="module")
def first(book):
    cells = build.build_page(book, book.pages["chapters/one"]).notebook.cells
    return "\n\n".join(cell.source for cell in cells if cell.cell_type == "markdown")


@pytest.mark.slow
def test_numbers_stand_in_the_text(first, convert):
    assert "A run takes 1.25 s, or 1.2," in first
    assert "Some 1.25 and" in first, "in what is folded, too"
    assert "| 1.25 | [two](reference/two.ipynb)" in first, "and in tables"
    assert convert("- a {glue:text}`n`\n\n  > b {glue:text}`x`") == "- a 1,024\n\n  > b 1.25"


def test_numbers_of_another_page_stand_in_the_text(book):
    two = build.build_page(book, book.pages["chapters/two"]).notebook.cells[0].source
    assert "The first took 1.25 s, about 1." in two


def test_citations_are_author_and_year_with_a_link_and_a_list_at_the_end(first):
    assert "as Curie and Dollár ([1911](https://doi.org/10.1/a_b)) say" in first
    both = "([A et al., 2020](https://example.org/three); [Curie and Dollár, 1911](https://doi.org/"
    assert both in first
    listed = first.partition("\n## Sources\n")[2]
    assert re.findall(r"^- (.{10})", listed, re.MULTILINE) == ["B. A, D. C", "Marie Curi"]
    assert "On Radium" in listed


def test_references_have_the_numbers_of_the_book(first, book):
    assert "See [Fig. 1](reference/two.ipynb#The-second-chapter), [(1.1)](#The-end:-wh" in first
    assert "[The end: what remains](#The-end:-what-remains)." in first
    assert "**Fig. 1.1** The *first* figure ([A et al., 2020]" in first
    assert "$$\nx = 1\n\\tag{1.1}\n$$" in first
    two = build.build_page(book, book.pages["chapters/two"]).notebook.cells[0].source
    assert "[The end: what remains](../01-one.ipynb#The-end:-what-remains)" in two
    assert "[figure 1.1](../01-one.ipynb#1.-The-first-chapter)" in two
    assert two.index("**Fig. 1** Second.") < two.index("**Fig. 2** Third."), "folded ones count"


def test_in_numbered_chapters_numbers_begin_anew(tmp_path):
    root = small_book.write(tmp_path)
    toc = root / "_toc.yml"
    toc.write_text(toc.read_text().replace("caption: The rest", "caption: 2\n    numbered: true"))
    own = Book(root).targets
    assert [own[label].text for label in ("fig-a", "fig-b", "eq-a")] == [
        *("Fig. 1.1", "Fig. 2.1", "(1.1)"),
    ]


@pytest.mark.slow
def test_figures_are_pictures_with_files_beside_the_notebook(first, book):
    assert "![A box with $x$](img/a.svg)\n\n**Fig. 1.1**" in first
    page = build.build_page(book, book.pages["chapters/one"])
    assert page.files["img/a.svg"].read_text() == small_book.PICTURE
    assert set(page.files) == {"img/a.svg", "scripts/run.py"}


def test_a_notebook_that_draws_plots_has_their_style(book):
    page, style = book.pages["chapters/one"], book.root / "chapters" / "matplotlibrc"
    style.write_text("axes.grid: True\n")
    assert build.style(book, page.notebook.cells) == {}
    cell = nbformat.v4.new_code_cell("from matplotlib import pyplot as plt")
    assert build.style(book, [cell]) == {"matplotlibrc": style}
    style.unlink()
    assert build.style(book, [cell]) == {}


def test_boxes_are_block_quotes_and_folds_are_details(first):
    assert "<details>\n<summary>Prerequisites</summary>\n\nSome" in first
    assert first.count("<details>") == first.count("</details>")
    assert "> **Note**\n>\n> A box.\n>\n> > **Of its own**\n> >\n> > Inside." in first


def test_what_is_no_markup_stays_to_the_letter(first, convert):
    assert "`{glue:text}` in code stays." in first
    assert "```python\n{cite}`this is code`\n\n\nx = 1\n```" in first
    plain = "A $x_{1}$ \\{eq} `{eq}`\n\n```\n{cite}`a`\n:::{note}\n:::\n```\n\n<b>*c*</b> [d]\n"
    assert convert(plain) == plain.strip()


def test_labels_and_remarks_are_gone(first):
    assert "A remark" not in first
    assert not re.search(r"^\([\w-]+\)=|^%|^:::", first, re.MULTILINE)
    assert "\n## The end: what remains" in first


def test_a_fence_is_set_off_from_what_follows(first):
    assert "\n\nText that follows at once;" in first


def test_lists_of_definitions_are_lists(book):
    intro = build.build_page(book, book.pages["intro"]).notebook.cells[0].source
    assert "- **[The first](01-one.ipynb)**  \n  What it is *about*.\n  More." in intro
    assert "- **[The second chapter](reference/two.ipynb)**  \n  The other." in intro


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("{eq}`the rate <eq-a>`", "[the rate](#The-end:-what-remains)"),
        ("{doc}`two`", "[The second chapter](reference/two.ipynb)"),
        ("{kbd}`a`{sub}`b`", "<kbd>a</kbd><sub>b</sub>"),
        ("{math}`x^2`", "$x^2$"),
        ("> a {cite}`three2020,\n>   curie1911radium` b", "> a ([A et al., 2020]"),
        ("```{math}\n:label: eq-a\nx\n```", "$$\nx\n\\tag{1.1}\n$$"),
        ("[a](https://example.org/a_(b))", "[a](https://example.org/a_(b))"),
        ("![a](img/a.svg){width=50px} b", "![a](img/a.svg) b"),
        ("[*a* {glue:text}`n` `]`](two.ipynb)", "[*a* 1,024 `]`](reference/two.ipynb)"),
        ("- a\n\n  :::{tip}\n  {glue:text}`n`\n  :::", "- a\n\n  > **Tip**\n  >\n  > 1,024"),
        (":::{list-table} T\n* - a\n  - b\n* - 1\n  - {glue:text}`n`\n:::", "| 1 | 1,024 |"),
        ("[planned](rules-of-thumb.ipynb)", "[planned](rules-of-thumb.ipynb)"),
    ],
)
def test_each_kind_of_markup(source, expected, convert):
    assert convert(source).startswith(expected) or expected in convert(source).split("\n")


@pytest.mark.parametrize(
    "source",
    [
        "{glue:text}`never_glued`",
        "{cite}`nobody1900`",
        "{numref}`fig-none`",
        "{unheard}`of`",
        ":::{unheard}\nof\n:::",
        "![a](img/missing.svg)",
    ],
)
def test_what_would_reach_the_reader_as_it_is_is_refused(source, convert):
    with pytest.raises(
        markup.UnknownMarkupError, match=r"chapters/one: .*(never|nob|none|unh|mis)"
    ):
        convert(source)
