"""The whole book as one PDF: ``python -m tools.pdf``, after the book was built.

A browser prints every page, and the prints are joined in the book's order. What is folded is open,
and a link to another page of the book leads to its place in the file.
"""

import base64
import io
import sys

import yaml
from pypdf import PdfReader, PdfWriter
from pypdf.annotations import Link
from pypdf.generic import Fit

from tools.browser import find_browser
from tools.screenshots import BUILT, ROOT, browser_and
from tools.visits import visit_all

TARGET = ROOT / "_build" / "pdf" / "book.pdf"
PAPER = {"paperWidth": 8.27, "paperHeight": 11.69, "preferCSSPageSize": True}  # A4, in inches
UNFOLDED = """document.documentElement.dataset.theme = 'light';
document.querySelectorAll('details').forEach(fold => { fold.open = true; });
document.querySelectorAll('img[loading=lazy]').forEach(image => { image.loading = 'eager'; });
document.fonts.ready.then(() => 0)"""


def page_names(root=ROOT):
    """Return the names of the book's pages, in its order."""
    toc = yaml.safe_load((root / "_toc.yml").read_text(encoding="utf-8"))
    parts = toc.get("parts", [toc])
    return [toc["root"], *(entry["file"] for part in parts for entry in part["chapters"])]


def print_page(visitor, address):
    """Return a page's title and its print."""
    visitor.visit(address)
    visitor.ask(UNFOLDED, awaitPromise=True)
    title = visitor.ask("document.querySelector('article h1').firstChild.parentNode.innerText")
    made = visitor.call(
        "Page.printToPDF", printBackground=True, generateDocumentOutline=True, **PAPER
    )
    return title.rstrip("#").strip(), base64.b64decode(made["data"])


def print_pages(names, built=BUILT):
    """Return the prints of pages and where they came from: ``{address: (title, print)}``."""
    with browser_and(built) as (tab, site):

        def look(visitor, name):
            return print_page(visitor, f"{site}/{name}.html")

        prints = visit_all(tab, names, look, tabs=2)
        return {f"{site}/{name}.html": prints[name] for name in names}


def join(prints):
    """Return one file of all prints, with bookmarks, and with links inside the file."""
    writer, first = PdfWriter(), {}
    for address, (title, content) in prints.items():
        first[address] = len(writer.pages)
        writer.append(PdfReader(io.BytesIO(content)), outline_item=title)
    for number, page in enumerate(writer.pages):
        redirect(writer, number, page, first)
    writer.add_metadata({"/Title": next(iter(prints.values()))[0]})
    writer.compress_identical_objects()
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()


def redirect(writer, number, page, first):
    """Let links to pages of the book lead there, and drop those to other files of the site."""
    kept, new = [], []
    site = next(iter(first)).split("/", 3)[2]
    for reference in page.get("/Annots", []):
        annotation = reference.get_object()
        address = str(annotation.get("/A", {}).get("/URI", ""))
        if f"//{site}/" not in address:
            kept.append(reference)
            continue
        target = first.get(address.partition("#")[0])
        if target is not None:
            new.append(Link(rect=annotation["/Rect"], target_page_index=target, fit=Fit.fit()))
    if "/Annots" in page:
        page["/Annots"].clear()
        page["/Annots"].extend(kept)
    for link in new:
        writer.add_annotation(page_number=number, annotation=link)


def main(built=BUILT, target=TARGET, root=ROOT):
    """Write the book's PDF; return the exit status."""
    if not find_browser():
        sys.stderr.write("pdf: no browser prints the pages: install Chromium or Chrome\n")
        return 1
    if not (built / "index.html").exists():
        sys.stderr.write("pdf: there is no book yet: make book\n")
        return 1
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(join(print_pages(page_names(root), built)))
    print(target)
    return 0


if __name__ == "__main__":
    sys.exit(main())
