"""Citations: author and year in the text, the list of a page's sources at its end."""

import re
from functools import cached_property

from pybtex.database import parse_file
from pybtex.plugin import find_plugin
from pybtex.richtext import Text

from tools.words import say

_ESCAPED = re.compile(r"\\([-.()])")  # more backslashes than Markdown needs


class Sources:
    """What can be cited, read from a BibTeX file."""

    def __init__(self, path):
        self.path = path

    @cached_property
    def entries(self):
        """Return the entries by their keys."""
        return parse_file(str(self.path)).entries

    def authors(self, key):
        """Return the authors as they are named in the text."""
        entry = self.entries[key]
        people = entry.persons.get("author") or entry.persons.get("editor") or []
        names = [_plain(" ".join(person.prelast_names + person.last_names)) for person in people]
        if not names:
            return _plain(entry.fields.get("key") or entry.fields["title"])
        if len(names) > 2:
            return say("{first} et al.", first=names[0])
        if len(names) == 2:
            return say("{first} and {second}", first=names[0], second=names[1])
        return names[0]

    def year(self, key):
        """Return the year, empty if there is none."""
        return self.entries[key].fields.get("year", "")

    def link(self, key):
        """Return where a source is found, or the place of the list."""
        fields = self.entries[key].fields
        if "doi" in fields:
            return f"https://doi.org/{fields['doi']}"
        return fields.get("url", f"#{say('Sources')}")

    def cite(self, keys, textual=False):
        """Return what stands in the text: (Name, year), or Name (year)."""
        if textual:
            return ", ".join(
                f"{self.authors(key)} ([{self.year(key) or say('source')}]({self.link(key)}))"
                for key in keys
            )
        cited = [
            f"[{', '.join(filter(None, (self.authors(key), self.year(key))))}]({self.link(key)})"
            for key in keys
        ]
        return f"({'; '.join(cited)})"

    def listed(self, keys):
        """Return the list of some sources in Markdown, by author and year."""
        style = find_plugin("pybtex.style.formatting", "plain")()
        backend = find_plugin("pybtex.backends", "markdown")("utf-8")
        keys = sorted(set(keys), key=lambda key: (self.authors(key).lower(), self.year(key)))
        formatted = style.format_entries([self.entries[key] for key in keys])
        lines = [" ".join(entry.text.render(backend).split()) for entry in formatted]
        return "\n".join("- " + _ESCAPED.sub(r"\1", line) for line in lines)


def _plain(text):
    """Return a name or title without LaTeX's braces and accents."""
    return re.sub(r"[{}]", "", str(Text.from_latex(text)))
