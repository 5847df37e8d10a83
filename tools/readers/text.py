"""What takes the place of each kind of markup on one page."""

import posixpath
import re

from myst_nb.core.variables import format_plain_text

from tools.readers import markup
from tools.words import say

BOXES = {
    "admonition", "attention", "caution", "danger", "error", "hint", "important", "note",
    "seealso", "tip", "warning", "margin", "sidebar", "topic", "card", "grid-item-card",
    "exercise", "epigraph",
}  # fmt: skip
FOLDS = {"dropdown", "toggle", "tab-item"}
TRANSPARENT = {"grid", "grid-item", "tab-set", "div", "container", "only", "centered", "strip"}
TAGS = {"kbd": "kbd", "sub": "sub", "subscript": "sub", "sup": "sup", "superscript": "sup"}
SILENT = {"index", "contents", "tableofcontents", "toctree", "raw", "fa", "fas", "octicon"}
SCRAP = "application/papermill.record/"
_TITLED = re.compile(r"(.*?)\s*<([^<>]+)>", re.DOTALL)


def glued(notebook):
    """Return what the cells of a page have stored for texts, by name, as it is stored."""
    numbers = {}
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            name = output.get("metadata", {}).get("scrapbook", {}).get("name")
            value = output.get("data", {}).get(f"{SCRAP}text/plain")
            if name and value is not None:
                numbers[name] = value
    return numbers


class PageText:
    """Turns the texts of one page into plain Markdown.

    Parameters
    ----------
    book : tools.readers.book.Book
    page : tools.readers.book.Page
    sources : tools.readers.sources.Sources

    Attributes
    ----------
    files : dict
        Pictures and other files that the text leads to, by their places beside the notebook.
    cited : list of str
    """

    def __init__(self, book, page, sources):
        self.book, self.page, self.sources = book, page, sources
        self.numbers = glued(page.notebook)
        self.files, self.cited = {}, []

    def convert(self, text):
        """Return a text of the page as plain Markdown."""
        return markup.convert(text, self)

    def unknown(self, what):
        """Refuse what would reach the reader as it is."""
        raise markup.UnknownMarkupError(f"{self.page.name}: tools/readers does not know {what}")

    # Roles

    def role(self, name, content):
        """Return what a role says."""
        content = " ".join(content.split())
        if name.startswith("cite"):
            return self.cite(name, content)
        if name in ("glue:text", "glue"):
            return self.glued(content)
        if name in ("numref", "ref", "eq"):
            return self.reference(name, content)
        if name in ("doc", "download"):
            target, text = titled(content)
            new, own = self.link(target, True)
            return f"[{text or own or target}]({new})"
        if name == "math":
            return f"${content}$"
        if name in TAGS:
            return f"<{TAGS[name]}>{content}</{TAGS[name]}>"
        if name in ("term", "abbr", "guilabel"):
            return content.split(" (")[0] if name == "abbr" else content
        if name in ("code", "py", "file", "samp", "command"):
            return f"`{content}`"
        if name in SILENT:
            return ""
        return self.unknown(f"the role {{{name}}}")

    def cite(self, name, content):
        """Return a citation, and remember its sources for the list."""
        keys = [key.strip() for key in content.split(",")]
        for key in keys:
            if key not in self.sources.entries:
                self.unknown(f"the source {key}")
        self.cited += keys
        return self.sources.cite(keys, textual=name in ("cite:t", "cite:ts", "cite:author"))

    def glued(self, content):
        """Return a number that a cell, here or on another page, has stored for the text."""
        path, _, key = content.rpartition("::")
        name, _, form = key.partition(":")
        numbers = self.numbers
        if path:
            page = self.book.resolve(self.page, path) or self.unknown(f"the page {path}")
            numbers = glued(page.notebook)
        if name not in numbers:
            self.unknown(f"the glued number {name}; run the notebook that computes it")
        return format_plain_text(numbers[name], form or "s")

    def reference(self, name, content):
        """Return a link to a figure, a formula or a section."""
        label, text = titled(content)
        target = self.book.targets.get(label) or self.unknown(f"the label {label}")
        text = text.replace("%s", target.number).replace("{number}", target.number)
        text = text.replace("{name}", target.heading)
        return f"[{text or target.text}]({self.place(target)})"

    def place(self, target):
        """Return what to link to from this page: the heading above a target."""
        page = self.page.path_to(target.page)
        place = page + (target.page.anchor(target.heading) if target.heading else "")
        return place or posixpath.basename(target.page.file)

    # Links and pictures

    def link(self, target, is_empty):
        """Return the new target of a link, and its text if it has none of its own."""
        if re.match(r"[a-z]+:", target):
            return target, ""
        path, _, label = target.partition("#")
        known = self.book.targets.get(label or path)
        if known and (not path or label or known.page.name.endswith(path)):
            return self.place(known), known.text if is_empty else ""
        page = self.book.resolve(self.page, path) if path else self.page
        if page:
            heading = page.headings.get(label, "")
            place = page.anchor(heading) if heading else f"#{label}" if label else ""
            text = (heading or page.title) if is_empty else ""
            return self.page.path_to(page) + place, text
        file = self.page.path.parent / path
        if file.is_file():
            folder = "scripts" if file.parent.name == "scripts" else "files"
            return self.beside(folder, file), ""
        return f"{posixpath.splitext(posixpath.basename(path))[0]}.ipynb", ""  # a planned page

    def picture(self, target):
        """Return where a picture is found."""
        if re.match(r"(?:https?|data):", target):
            return target
        path = self.page.path.parent / target
        if not path.is_file():
            self.unknown(f"the picture {target}")
        return self.beside("img", path)

    def beside(self, folder, path):
        """Return where a file is found beside the notebook, and remember to put it there."""
        place = f"{folder}/{path.name}"
        self.files[place] = path
        return place

    # Directives

    def directive(self, found):
        """Return what a directive says."""
        name = found.name
        if name in BOXES:
            return self.box(found)
        if name in FOLDS:
            return folded(self.title(found) or say("More"), self.convert(found.body))
        if name in TRANSPARENT:
            return self.convert(found.body)
        if name in ("figure-md", "figure", "image"):
            return getattr(self, name.replace("-", "_"))(found)
        if name == "math":
            label = found.options.get("label")
            body = found.body + (f"\n{self.formula(label)}" if label else "")
            return f"$$\n{body}\n$$"
        if name in ("code-block", "code", "code-cell", "sourcecode"):
            return f"```{found.argument or 'python'}\n{found.body}\n```"
        if name == "eval-rst":
            return documented(found.body)
        if name == "guess":
            return f"*{found.argument or say('Your guess?')}*\n\n{self.convert(found.body)}"
        if name == "glossary":
            return self.glossary(found)
        if name == "list-table":
            return self.list_table(found)
        if name == "bibliography":
            return self.sources.listed(self.sources.entries)
        if name == "button-link" or name == "button-ref":
            target, text = self.link(found.argument, True)
            return f"[{self.convert(found.body) or text}]({target})"
        if name in SILENT:
            return ""
        return self.unknown(f"the directive {{{name}}}")

    def title(self, found):
        """Return the title of a box, a card or what is folded."""
        return self.convert(found.argument) if found.argument else ""

    def box(self, found):
        """Return a block quote under its title."""
        title = self.title(found) or called(found.name)
        if "link" in found.options:
            title = f"[{title}]({self.link(found.options['link'], False)[0]})"
        parts = ([f"**{title}**"] if title else []) + [self.convert(found.body)]
        return "\n".join(f"> {line}".rstrip() for line in "\n\n".join(parts).split("\n"))

    def figure_md(self, found):
        """Return a picture that is written in Markdown, and its caption."""
        picture, _, caption = found.body.strip().partition("\n")
        return f"{self.convert(picture)}\n\n{self.caption(found.argument, caption)}"

    def figure(self, found):
        """Return a picture and its caption."""
        label = found.options.get("name") or f"figure of {found.argument}"
        return f"{self.image(found)}\n\n{self.caption(label, found.body)}"

    def image(self, found):
        """Return a picture."""
        return f"![{found.options.get('alt', '')}]({self.picture(found.argument)})"

    def caption(self, label, text):
        """Return a caption with its number."""
        return f"**{self.page.targets[label].text}** {self.convert(text.strip())}"

    def formula(self, label):
        """Return what numbers a formula."""
        return rf"\tag{{{self.page.targets[label].number}}}"

    def glossary(self, found):
        """Return the entries of a glossary: their names, and what they mean below."""
        lines = []
        for entry in re.split(r"\n\s*\n", found.body):
            names = [line for line in entry.split("\n") if not line.startswith(" ")]
            said = self.convert(" ".join(line.strip() for line in entry.split("\n")[len(names) :]))
            lines.append(f"- **{names[0]}**{''.join(f', {name}' for name in names[1:])}: {said}")
        return "\n".join(lines)

    def list_table(self, found):
        """Return a table whose rows are lists of lists."""
        rows = [re.split(r"\n\s+- ", "\n" + row) for row in re.split(r"\n\* ", "\n" + found.body)]
        rows = [[" ".join(c.split()).removeprefix("- ") for c in row] for row in rows if any(row)]
        rows = [[self.convert(c) for c in row if c] for row in rows]
        lines = [f"| {' | '.join(row)} |" for row in rows]
        lines.insert(1, "|" + " --- |" * len(rows[0]))
        title = [f"**{self.convert(found.argument)}**", ""] if found.argument else []
        return "\n".join(title + lines)


def titled(content):
    """Return target and text of ``text <target>``, or the target and no text."""
    match = _TITLED.fullmatch(content)
    return (match[2].strip(), match[1]) if match else (content.strip(), "")


def called(name):
    """Return the title of a box that has none of its own."""
    titles = {
        "admonition": say("Admonition"), "attention": say("Attention"), "caution": say("Caution"),
        "danger": say("Danger"), "error": say("Error"), "hint": say("Hint"),
        "important": say("Important"), "note": say("Note"), "seealso": say("See also"),
        "tip": say("Tip"), "warning": say("Warning"), "topic": say("Topic"),
        "exercise": say("Exercise"),
    }  # fmt: skip
    return titles.get(name, "")


def documented(body):
    """Return the names whose docstrings a part of the book's reference shows."""
    module = re.search(r"^\.\. currentmodule:: (\S+)", body, re.MULTILINE)[1]
    names = re.findall(r"^\.\. (?:auto\w+|data):: (\w+)$|^   (\w+)$", body, re.MULTILINE)
    lines = [f"- `{module}.{one or other}`" for one, other in names]
    return "\n".join([say("`help(name)` shows what each of these does:"), "", *lines])


def folded(title, text):
    """Return a text that unfolds when its title is clicked."""
    return f"<details>\n<summary>{title}</summary>\n\n{text}\n\n</details>"
