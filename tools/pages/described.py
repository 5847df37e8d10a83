"""Timelines that say in a sentence what they show, to those who cannot see it.

The sentence stands in the metadata of the cell, as that of a plot does (``mystnb.image.alt``); a
screen reader says it before the number of spans. Readers' notebooks have it, too.
"""

from docutils import nodes

from tools.readers.pictures import described, is_timeline


def describe(_, doctree):
    """Give the timelines of a page the sentences of their cells."""
    for cell in doctree.findall(nodes.container):
        for raw in list(cell.findall(nodes.raw)) if "cell_metadata" in cell else ():
            if is_timeline(raw.astext()):
                new = described(raw.astext(), cell["cell_metadata"])
                raw.replace_self(nodes.raw(new, new, **raw.attributes))


def setup(app):
    """Register with Sphinx."""
    app.connect("doctree-read", describe)
