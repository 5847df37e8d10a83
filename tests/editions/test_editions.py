"""Editions in other languages: blocks, the files that hold them, the copy that is written."""

# ruff: noqa: RUF001

import shutil
import subprocess

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from support.paths import ROOT

from tools.editions import blocks, checks, copy, history, pages, reviews, same, store, work

PAGE = """# Two GPUs

Two GPUs are faster than one.
They share the work.

:::{guess} How fast?
:right: 2
:answer: {glue:text}`x` times

- once
- twice
:::

| what | time |
|---|---|
| a step | 2 ms |

```python
y = net(x)  # on the first GPU
```

$$x = 1$$ (eq-one)
"""
ENGLISH = pages.names()


@pytest.mark.parametrize("name", ENGLISH[1:])
def test_the_blocks_of_a_page_are_the_page_again(name):
    for text in pages.read_page(ROOT, name).texts():
        assert "\n".join(blocks.split(text)) == text


def test_what_is_a_block():
    cell = new_markdown_cell(PAGE)
    assert list(pages.of_cell(cell)) == [
        "# Two GPUs",
        "Two GPUs are faster than one.\nThey share the work.",
        ":::{guess} How fast?\n:right: 2\n:answer: {glue:text}`x` times",
        "- once",
        "- twice",
        "| what | time |\n|---|---|\n| a step | 2 ms |",
        "on the first GPU",
    ]


def test_entries_of_the_glossary_are_blocks():
    text = "```{glossary}\nbucket\n  A group.\n\nring\n  A circle.\n```\n\n```\nls\n```"
    assert [b for b in blocks.split(text) if blocks.has_words(b)] == [
        "bucket\n  A group.",
        "ring\n  A circle.",
    ]


def test_comments_of_code():
    code = "# Checked: it\n# is fast\nx = 1  # noqa: E741\nif x:\n    # here too\n    y = '#no'"
    assert blocks.comments(code) == ["Checked: it\nis fast", "here too"]


def translation(table, language="ko"):
    return copy.Translation(language, {blocks.digest(old): new for old, new in table.items()})


def test_translated_blocks_take_the_place_of_english_ones():
    made = translation(
        {
            "# Two GPUs": "# GPU 2개",
            "Two GPUs are faster than one. They share the work.": "GPU 2개가 빠릅니다.",
            "on the first GPU": "첫 GPU에서",
        }
    )
    text = made.markdown(PAGE)
    assert text.startswith("# GPU 2개\n\nGPU 2개가 빠릅니다.\n\n:::{guess} How fast?\n")
    assert "y = net(x)  # 첫 GPU에서\n" in text
    assert made.headings == {"GPU 2개": "Two GPUs"}
    assert len(made.missing) == 4
    assert len(made.used) == 3


def test_a_paragraph_without_translation_is_marked_as_english():
    text = translation({}).markdown("# Title\n\nOne.\n\n- an item\n\n| a table |\n|---|")
    assert text == f"# Title\n\n{copy.ENGLISH}\nOne.\n\n- an item\n\n| a table |\n|---|"


def test_translated_comments_keep_their_indent_and_the_title_of_a_fold():
    source = "# Checked: it is\n# fast\nif x:\n    # here\n    y = 1"
    cell = new_code_cell(source)
    cell.metadata.mystnb = {"code_prompt_hide": "Checked: it is", "image": {"alt": "A plot."}}
    made = translation({"Checked: it is fast": "확인: 빠름", "here": "여기", "A plot.": "그림."})
    made.page(new_notebook(cells=[cell]))
    assert cell.source == "# 확인: 빠름\nif x:\n    # 여기\n    y = 1"
    assert cell.metadata.mystnb == {"code_prompt_hide": "확인: 빠름", "image": {"alt": "그림."}}


def test_the_file_of_a_page_is_in_the_order_of_the_english(tmp_path):
    store.write("ko", "page", ["One.", "Two.", "Three."], {}, tmp_path)
    keys = [blocks.digest(text) for text in ("One.", "Two.", "Three.")]
    table = {keys[2]: "셋", "0" * 8: "옛", keys[0]: "하나"}
    store.write("ko", "page", ["One.", "Two.", "Three."], table, tmp_path)
    assert list(store.read("ko", "page", tmp_path).items()) == [
        (keys[0], "하나"),
        (keys[2], "셋"),
        ("0" * 8, "옛"),
    ]


@pytest.fixture
def book(tmp_path):
    """A book of one page under git, with a translated block."""
    (tmp_path / "_toc.yml").write_text("root: page\nparts: []\n")
    (tmp_path / "page.md").write_text(PAGE)
    (tmp_path / "_config.yml").write_text("title: Book\n")
    for command in (
        ["init", "-q"],
        ["add", "-A"],
        ["-c", "user.name=A", "-c", "user.email=a@b", "commit", "-qm", "One"],
    ):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    text = work.todo("ko", "page", tmp_path).replace("Two GPUs are", "GPU 2개는")
    assert work.add("ko", "page", text, tmp_path) == 7
    return tmp_path


def change(book):
    (book / "page.md").write_text(PAGE.replace("faster than", "slower than"))
    history.older_blocks.cache_clear()


@pytest.mark.process
def test_one_changed_sentence_makes_one_block_stale(book):
    assert work.unfinished("ko", "page", book) == ([], [])
    change(book)
    missing, orphans = work.unfinished("ko", "page", book)
    assert missing == ["Two GPUs are slower than one.\nThey share the work."]
    assert len(orphans) == 1
    assert "6 of 7, 1 stale" in list(work.status(book, ["ko"]))[-1]


@pytest.mark.process
def test_lines_that_are_wrapped_otherwise_are_no_change(book):
    (book / "page.md").write_text(PAGE.replace("faster than", "faster\nthan"))
    assert work.unfinished("ko", "page", book) == ([], [])


@pytest.mark.process
def test_a_stale_block_is_shown_with_what_has_changed(book):
    change(book)
    text = work.todo("ko", "page", book)
    assert "% changed: - faster  + slower\n" in text
    assert "% GPU 2개는 faster than one.\n" in text
    assert work.add("ko", "page", text.replace("Two GPUs are", "GPU 2개는"), book) == 1
    assert work.unfinished("ko", "page", book) == ([], [])


@pytest.mark.process
def test_a_mark_of_no_block_is_refused(book):
    with pytest.raises(ValueError, match="page: no block has the mark 00000000"):
        work.add("ko", "page", "%% 00000000\nword\n", book)


@pytest.mark.process
def test_both_texts_beside_each_other(book):
    page = work.side("ko", "page", book)
    assert "Two GPUs are faster" in page
    assert "GPU 2개는" in page


@pytest.mark.parametrize(
    ("value", "language", "shown"),
    [
        ("'1,234.5'", "tr", "'1.234,5'"),
        ("'12%'", "tr", "'%12'"),
        ("'0.54 / 0.74'", "tr", "'0,54 / 0,74'"),
        ("'438 ms (simulated)'", "tr", "'438 ms (W)'"),
        ("'1.5 ms (simulated)'", "ko", "'1.5 ms (W)'"),
        ("'98 %'", "ko", "'98%'"),
        ("'438 ms (simulated)'", "zh", "'438 ms（W）'"),
        ("'98 % (measured)'", "zh", "'98%（measured）'"),
        ("'host cpu (2)'", "zh", "'host cpu (2)'"),
    ],
)
def test_glued_numbers(value, language, shown):
    assert copy.glued(value, language, {"simulated": "W"}) == shown


def test_korean_counts_glued_millions_in_ten_thousands():
    name = {"scrapbook": {"name": "size"}}
    output = new_output("display_data", {"text/plain": "'6.7'"}, metadata=name)
    notebook = new_notebook(cells=[new_code_cell(outputs=[output])])
    english, korean = "{glue:text}`size` billion", "{glue:text}`size`십억 개"
    table = {blocks.digest(english): korean}
    copy.count_in_myriads(notebook, table.values())
    assert notebook.cells[0].outputs[0]["data"] == {"text/plain": "'67억'"}
    assert copy.Translation("ko", table).block(english) == "{glue:text}`size` 개"


@pytest.mark.parametrize(
    ("minor", "major", "critical", "passes"),
    [(10, 0, 0, True), (11, 0, 0, False), (0, 1, 0, True), (0, 2, 0, False), (0, 0, 1, False)],
)
def test_which_pages_are_published(minor, major, critical, passes, tmp_path):
    folder = tmp_path / "editions" / "ko"
    folder.mkdir(parents=True)
    row = f"page,1000,{minor},{major},{critical},translated back"
    (folder / "reviews.csv").write_text(f"{','.join(reviews.FIELDS)}\n{row}\n")
    assert reviews.is_published("ko", "page", tmp_path) is passes
    assert not reviews.is_published("ko", "other", tmp_path)
    assert reviews.is_draft("ko", tmp_path)
    with (folder / "reviews.csv").open("a") as file:
        file.write("page,1000,0,0,0,native\n")
    assert reviews.is_published("ko", "page", tmp_path)
    assert not reviews.is_draft("ko", tmp_path)


def test_what_is_translated_back():
    text = "".join(f"Word {number} of a text.\n\n" for number in range(400))
    blocks_ = [b for b in blocks.split(text) if blocks.has_words(b)]
    chosen = [b for b in blocks_ if reviews.is_chosen(b)]
    assert 0.1 < len(chosen) / len(blocks_) < 0.2
    for block in ("It is not so.", "It isn't.", "A is faster than B.", "{glue:text}`a`, {glue}`b`"):
        assert reviews.is_chosen(block), block


@pytest.mark.process
def test_who_translates_back_does_not_see_the_english(book, monkeypatch):
    monkeypatch.setattr(reviews, "is_chosen", lambda block: "Two" in block)
    text = reviews.to_translate_back("ko", "page", book)
    assert "GPU 2개는" in text
    assert "Two GPUs are" not in text
    beside = reviews.beside("ko", "page", text.replace("GPU 2개는", "GPUs are"), book)
    assert "Two GPUs are faster" in beside
    assert "--- translation\nGPU 2개는" in beside
    assert "--- back\nGPUs are" in beside


def with_other_words(block):
    """Return a block in a language of which one word differs."""
    return block.replace(" the ", " ze ")


@pytest.mark.process
def test_the_copy_of_the_book_differs_in_words_alone(tmp_path, monkeypatch):
    root = tmp_path / "book"
    for name in ("chapters", "assets"):
        ignored = shutil.ignore_patterns("scripts", ".ipynb_checkpoints", "*.pyc")
        shutil.copytree(ROOT / name, root / name, ignore=ignored)
    for path in [*ROOT.glob("*.md"), *ROOT.glob("*.yml")]:
        shutil.copy(path, root)
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    monkeypatch.setattr(reviews, "is_published", lambda *_: True)
    for name in ENGLISH:
        english = pages.blocks_of(name, root)
        table = {blocks.digest(block): with_other_words(block) for block in english}
        store.write("ko", name, english, table, root)
    counts = copy.write("ko", root)
    place = copy.place_of("ko", root)
    assert list(same.compare(root, place)) == []
    assert all(missing == 0 for _, missing, _ in counts.values())
    text = (place / "chapters" / "devices.ipynb").read_text()
    assert " ze " in text
    assert " the " not in "".join(pages.read_page(place, "intro").texts())
    assert not (place / "editions").exists()


def test_an_entry_of_the_glossary_is_not_marked_as_english():
    text = "```{glossary}\nbucket\ngroup\n  A group.\n```"
    assert translation({}, "zh").markdown(text) == text
    assert translation({}, "ko").markdown(text) == text.replace("ry}", "ry}\n:sorted:")


@pytest.mark.slow
def test_two_headings_may_not_become_one(tmp_path):
    (tmp_path / "_toc.yml").write_text("root: page\nparts: []\n")
    (tmp_path / "_config.yml").write_text("title: Book\n")
    (tmp_path / "page.md").write_text("# Summary\n\n## In short\n\n# Summary")
    table = {blocks.digest("# Summary"): "# 요약", blocks.digest("## In short"): "## 요약"}
    store.write("ko", "page", ["# Summary", "## In short"], table, tmp_path)
    (problem,) = checks.of_headings("ko", tmp_path)
    assert problem.text == "heading: 요약 is what several are called: In short, Summary"
    table[blocks.digest("## In short")] = "## 짧게"
    store.write("ko", "page", ["# Summary", "## In short"], table, tmp_path)
    assert list(checks.of_headings("ko", tmp_path)) == []
