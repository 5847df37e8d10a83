"""Write a copy of the repository in which only texts differ: ``_build/editions/LANG``.

All tools run unchanged in the copy, since each takes the folder that it stands in for the book's.
"""

# ruff: noqa: RUF001, RUF002

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from pathlib import Path

import nbformat
import yaml

from tools import words
from tools.editions import blocks, pages, reviews, store
from tools.editions.languages import LANGUAGES
from tools.editions.rules import suffixes
from tools.readers.text import glued as numbers_of

ROOT = Path(__file__).parents[2]
LEFT_OUT = "editions/"
ENGLISH = "{.untranslated .language-en}"  # before a paragraph that is not translated
MARKED = re.compile(  # what may stand behind that: a paragraph, no entry of the glossary
    r"(?!#|:::|```|\$\$|!\[|[-*] |\d+\. |\||<|:|  |(?:.*\n)+  )"
)
LARGE = re.compile(r"\{glue:text\}`(\w+)`(백만|십억)")  # a number, and the unit of the English
SORTED = {"tr", "ko"}  # whose alphabets are in the order of their letters' numbers, or nearly so


def place_of(language, root=ROOT):
    """Return the folder of a language's copy."""
    return root / "_build" / "editions" / language


@dataclass
class Translation:
    """Puts the translated blocks of a page in the place of the English ones.

    Attributes
    ----------
    table : dict
        Translations, by the digest of the English.
    used : set of str
        Digests that were translated.
    missing : list of str
        Blocks that have no translation, and stay English.
    headings : dict
        English headings, by what stands in their place.
    value_of : callable, optional
        Takes what a role names, returns the glued number.
    """

    language: str
    table: dict
    used: set = field(default_factory=set)
    missing: list = field(default_factory=list)
    headings: dict = field(default_factory=dict)
    value_of: Callable = None

    def translated(self, block):
        """Return the translation of a block, None where there is none."""
        key = blocks.digest(block)
        if key not in self.table:
            self.missing.append(block)
            return None
        self.used.add(key)
        new = self.table[key]
        return suffixes.put(new, self.value_of) if self.value_of else new

    def page(self, notebook):
        """Translate a page, in place."""
        for cell in notebook.cells:
            if cell.cell_type == "markdown":
                cell.source = self.markdown(cell.source)
                continue
            cell.source = self.code(cell.source)
            info = cell.metadata.get("mystnb", {})
            if alt := pages.alternative_text(cell):
                info["image"]["alt"] = self.translated(alt) or alt
            for name in {"code_prompt_hide", "code_prompt_show"} & set(info):
                info[name] = cell.source.partition("\n")[0][2:]

    def markdown(self, source):
        """Return a translated text."""
        return "\n".join(self.block(block) for block in blocks.split(source))

    def block(self, block):
        """Return what takes the place of a block."""
        if pages.is_code(block):
            return self.code(block)
        if block == "```{glossary}" and self.language in SORTED:
            return f"{block}\n:sorted:"
        if not blocks.has_words(block):
            return block
        new = self.translated(block)
        if new is None:
            return f"{ENGLISH}\n{block}" if MARKED.match(block) else block
        new = LARGE.sub(lambda match: match[0].removesuffix(match[2]), new)
        if block.startswith("#"):
            self.headings[new.lstrip("# ")] = block.lstrip("# ")
        return new

    def code(self, source):
        """Return code whose comments are translated."""

        def comment(match):
            old = blocks.comment_of(match)
            new = self.translated(old) if old in blocks.comments(match[0]) else None
            if new is None:
                return match[0]
            indent = match["indent"] or ""
            lines = [" ".join(new.split())] if match["behind"] else new.split("\n")
            return "\n".join(f"{indent}# {line}" for line in lines)

        return blocks.COMMENT.sub(comment, source)


def convert_glued(notebook, language, table):
    """Write the numbers that texts show as the language does; what programs print stays.

    The only words in them are those that say by which clock a time was taken.
    """
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            if output.get("metadata", {}).get("scrapbook", {}).get("name"):
                data = output["data"]
                data.update({kind: glued(value, language, table) for kind, value in data.items()})


def glued(value, language, table):
    """Return a glued value as the texts of a language show it.

    Examples
    --------
    >>> glued("1,234.5 ms (simulated)", "tr", {"simulated": "simüle"}), glued("12%", "tr", {})
    ('1.234,5 ms (simüle)', '%12')
    >>> glued("1,234.5 ms (simulated)", "zh", {"simulated": "模拟"}), glued("12 %", "zh", {})
    ('1,234.5 ms（模拟）', '12%')
    """
    if not isinstance(value, str):
        return value
    start, end = (" ?", "（{}）") if language == "zh" else ("", "({})")
    value = re.sub(
        rf"{start}\(({'|'.join(pages.CLOCKS)})\)",
        lambda word: end.format(table.get(word[1], word[1])),
        value,
    )
    if language in ("ko", "zh"):
        value = re.sub(r"(?<=\d) %", "%", value)
    if language != "tr":
        return value
    swap = str.maketrans(".,", ",.")
    value = re.sub(r"\d[\d.,]*\d", lambda number: number[0].translate(swap), value)
    return re.sub(r"([\d,.]*\d) ?%", r"%\1", value)


def glued_value(notebook, root, role):
    """Return the number that a role shows in Turkish: ``name`` here, ``page::name:s`` elsewhere."""
    page, _, name = role.rpartition("::")
    if page:
        notebook = nbformat.read(root / page, as_version=4)
    value = numbers_of(notebook)[name.split(":")[0]]
    return (glued(value, "tr", {}) if page else value).strip("'")


def count_in_myriads(notebook, texts):
    """Write glued millions and billions as Korean does, where the texts have their unit behind.

    The text loses the unit, so all uses of such a number must have it.
    """
    units = {name: unit for text in texts for name, unit in LARGE.findall(text)}
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            if unit := units.get(output.get("metadata", {}).get("scrapbook", {}).get("name")):
                data = output["data"]
                data.update({kind: f"'{in_myriads(value, unit)}'" for kind, value in data.items()})


def in_myriads(value, unit):
    """Return a Korean number of millions or billions, which Korean counts in 10^4 and 10^8.

    Examples
    --------
    >>> in_myriads("6.7", "십억"), in_myriads("604", "백만"), in_myriads("38", "백만")
    ('67억', '6억 400만', '3800만')
    """
    number = int(Decimal(str(value).strip("'")) * {"백만": 10**6, "십억": 10**9}[unit])
    parts = ((number // 10**8, "억"), (number % 10**8 // 10**4, "만"))
    return " ".join(f"{count}{name}" for count, name in parts if count)


def write(language, root=ROOT, place=None, *, unreviewed=False):
    """Write the copy of a language; what was built in it stays.

    Parameters
    ----------
    language : str
    root : pathlib.Path
        The folder of the book.
    place : pathlib.Path, optional
        Where to write it, by default ``_build/editions/LANG``.
    unreviewed : bool
        Whether pages that no review has passed are translated as well.

    Returns
    -------
    dict
        For each page how many blocks are translated, how many are not, and how many of these have
        a translation of an older text.
    """
    place = place or place_of(language, root)
    copy_files(root, place)
    counts, headings, table = {}, {}, {}
    for name in pages.names(root):
        translation = Translation(language, store.read(language, name, root))
        if name == pages.WORDS:
            found = pages.blocks_of(name, root)
            table = {english: new for english in found if (new := translation.translated(english))}
        else:
            if not (unreviewed or reviews.is_published(language, name, root)):
                translation.table = {}
            write_page(name, translation, table, root, place)
        headings |= translation.headings
        counts[name] = count(translation)
    write_config(language, table, root, place)
    for file, data in (("slugs", headings), ("words", table)):
        write_json(place / f"{file}.json", data)
    about = {"language": language, "draft": reviews.is_draft(language, root), "pages": counts}
    write_json(place / "edition.json", about)
    write_words(table, root, place)
    if table:
        run_in(place, "-m", "tools.notebooks")  # the lines of minutes
    return counts


def count(translation):
    """Return how many blocks are translated, missing, and missing since the English changed."""
    missing = list(dict.fromkeys(translation.missing))
    stale = min(len(missing), len(set(translation.table) - translation.used))
    return [len(translation.used), len(missing), stale]


def copy_files(root, place):
    """Copy what git knows or would take in, in place of what was copied before."""
    if place.exists():
        for path in place.iterdir():
            if path.name != "_build":
                shutil.rmtree(path) if path.is_dir() else path.unlink()
    listed = subprocess.run(
        ["git", "ls-files", "-co", "-z", "--exclude-standard"],
        cwd=root, text=True, capture_output=True, check=True,
    )  # fmt: skip
    for name in filter(None, listed.stdout.split("\0")):
        if not name.startswith(LEFT_OUT) and (root / name).is_file():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, place / name)


def write_page(name, translation, table, root, place):
    """Write a translated page into the copy."""
    notebook = pages.read_page(root, name).notebook
    if translation.table:
        convert_glued(notebook, translation.language, table)
        if translation.language == "tr":
            translation.value_of = partial(glued_value, notebook, root)
        count_in_myriads(notebook, translation.table.values())
    translation.page(notebook)
    path = place / f"{name}.ipynb"
    if path.exists():
        path.write_text(nbformat.writes(notebook) + "\n", encoding="utf-8")
    else:
        (place / f"{name}.md").write_text(notebook.cells[0].source, encoding="utf-8")


def write_words(table, root, place):
    """Write the words of scripts and figures into the copy."""

    def translated(match):
        return match["before"] + table.get(match["words"], match["words"])

    for path, pattern in pages.figures(root):
        text = path.read_text(encoding="utf-8")
        new = pattern.sub(translated, text)
        (place / path.relative_to(root)).write_text(new, encoding="utf-8")
    drawn = [path.name for path in place.glob(f"chapters/img/{pages.STRIPS}*.svg")]
    if table and drawn:
        run_in(place, "-m", "tools.figures", *sorted(drawn))
    script = words.script(table, root)
    (place / "assets" / "words.js").write_text(script, encoding="utf-8")


def run_in(place, *program):
    """Run a program of a copy in it, without a word; its errors are ours."""
    command, path = [sys.executable, *program], os.pathsep.join([str(place), *sys.path])
    subprocess.run(
        command, cwd=place, env=os.environ | {"PYTHONPATH": path}, check=True, capture_output=True
    )


def write_config(language, table, root, place):
    """Write the copy's ``_config.yml`` and ``_toc.yml``."""
    config = yaml.safe_load((root / "_config.yml").read_text(encoding="utf-8"))
    config["title"] = table.get(config["title"], config["title"])
    config["parse"]["myst_enable_extensions"].append("attrs_block")
    more = config["sphinx"]["config"]
    more["language"] = LANGUAGES[language].sphinx
    more["myst_heading_slug_func"] = "tools.editions.site.slug"
    toc = yaml.safe_load((root / "_toc.yml").read_text(encoding="utf-8"))
    for part in toc["parts"]:
        part["caption"] = table.get(part["caption"], part["caption"])
    for name, data in (("_config", config), ("_toc", toc)):
        text = yaml.safe_dump(data, allow_unicode=True, sort_keys=False)
        (place / f"{name}.yml").write_text(text, encoding="utf-8")


def write_json(path, data):
    """Write data as JSON that people can read."""
    text = json.dumps(data, ensure_ascii=False, indent=1)
    path.write_text(text + "\n", encoding="utf-8")
