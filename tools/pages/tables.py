"""Tables of the finished pages, for narrow screens.

A table with sentences in its cells gets the class ``stacked``, and each cell the name of its
column: the style sheet then stacks its rows on a phone. Names in cells may be broken where people
would break them.
"""

import html
import re
from statistics import median

TABLE = re.compile(r'(?s)<table class="(table)">(\n<thead>.*?)</table>')
ROW = re.compile(r"(?s)<tr\b.*?</tr>")
CELL = re.compile(r"(?s)<td\b([^>]*)>(.*?)</td>")
HEAD = re.compile(r"(?s)<th\b[^>]*>(.*?)</th>")
NAME = re.compile(r'(?<=<span class="pre">)[^<]{14,}(?=</span>)')
BREAKS = re.compile(r"(?<=\w)[._(/=:,]+(?=\w|&)|(?<=[a-z])(?=[A-Z])")
COLUMNS = (3, 4)  # fewer fit, more are numbers
LONGEST = 23  # a name that is whole unless the screen is narrow
WORDY = 14  # characters in the median cell


def words(cell):
    """Return the text of a cell."""
    return html.unescape(re.sub(r"<[^>]+>", "", cell)).strip()


def breakable(cell):
    """Return a cell whose long names may be broken after a dot, an underscore, a bracket."""

    def broken(name):
        here = "<wbr>" if len(name[0]) > LONGEST else '<wbr class="narrow">'
        return BREAKS.sub(rf"\g<0>{here}", name[0])

    return NAME.sub(broken, cell)


def label(row, heads):
    """Return a row whose cells say to which column they belong, except the first of them."""
    names = iter(heads)

    def labelled(cell):
        name = next(names, "")
        first = name == heads[0] or not words(cell[2])
        mark = "" if first or not name else f' data-label="{html.escape(name)}"'
        return f"<td{cell[1]}{mark}>{cell[2]}</td>"

    return CELL.sub(labelled, row)


def mend(page):
    """Return a page whose tables are ready for a phone."""

    def table(found):
        inside = CELL.sub(lambda cell: f"<td{cell[1]}>{breakable(cell[2])}</td>", found[2])
        heads = [words(head) for head in HEAD.findall(inside)]
        cells = [len(words(cell)) for _, cell in CELL.findall(inside)]
        if len(heads) not in COLUMNS or not cells or median(cells) < WORDY:
            return f'<table class="{found[1]}">{inside}</table>'
        inside = ROW.sub(lambda row: label(row[0], heads), inside)
        return f'<table class="{found[1]} stacked">{inside}</table>'

    return TABLE.sub(table, page)
