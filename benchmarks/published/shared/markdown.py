"""What the page consists of, as Markdown: words that are no markup, tables, figures."""

import re


def plain(text):
    """Write a text such that nothing in it is markup, unless it begins a line."""
    return re.sub(r"[\\`*_{}\[\]<>&|$~^#]", r"\\\g<0>", " ".join(text.split()))


def table(head, lines):
    """Lay out cells; every text must be `plain` already."""
    return rows_of([head, ["---"] * len(head), *lines])


def rows_of(lines):
    """Lay out the cells of a table that has its head already."""
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def figure(name, alt, caption):
    """Return the directive for a figure in img/."""
    return f":::{{figure}} img/{name}\n:alt: {plain(alt)}\n\n{plain(caption)}\n:::"
