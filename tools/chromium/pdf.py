"""The whole book as one PDF: ``python -m tools.chromium.pdf``, after the book was built.

A browser prints every page, and the prints are joined in the book's order. What is folded is open,
and a link leads to its place in the file, whichever page of the book it is on.
"""

import base64
import io
import re
import shutil
import sys
from urllib.parse import unquote

import yaml
from pypdf import PdfReader, PdfWriter
from pypdf.generic import ArrayObject, FloatObject, NameObject, NullObject

from tools.chromium.browser import find_browser
from tools.chromium.screenshots import BUILT, ROOT, browser_and
from tools.chromium.visits import visit_all
from tools.words import say

TARGET = ROOT / "_build" / "pdf" / "book.pdf"
PAPER = {"paperWidth": 8.27, "paperHeight": 11.69, "preferCSSPageSize": True}  # A4, in inches
UNFOLDED = """document.documentElement.dataset.theme = 'light';
document.querySelectorAll('details').forEach(fold => { fold.open = true; });
document.querySelectorAll('img[loading=lazy]').forEach(image => { image.loading = 'eager'; });
// A print says where a place is only if the page itself has a link to it.
const links = document.body.appendChild(document.createElement('div'));
links.hidden = true;
for (const place of document.querySelectorAll('article [id]:not(svg *)')) {
    links.appendChild(document.createElement('a')).href = `#${encodeURIComponent(place.id)}`;
}
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
    writer, places, owners = PdfWriter(), {}, []
    for address, (title, content) in prints.items():
        reader, start = PdfReader(io.BytesIO(content)), len(writer.pages)
        named = reader.named_destinations.items()
        places[address] = (start, None)
        for name, place in named:
            number = start + reader.get_destination_page_number(place)
            places[f"{address}#{place_name(name)}"] = (number, place.top)
        reader.trailer["/Root"].pop("/Dests", None)  # other pages have places of the same names
        writer.append(reader, outline_item=title)
        owners += [address] * len(reader.pages)
    for page, owner in zip(writer.pages, owners, strict=True):
        redirect(writer, page, owner, places)
    writer.add_metadata({"/Title": next(iter(prints.values()))[0]})
    writer.compress_identical_objects()
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()


def place_name(name):
    """Return the id of an element by the name that a print has for its place.

    Examples
    --------
    >>> place_name("/the-end"), place_name("/%C3%83%C2%BCber")
    ('the-end', 'über')
    """
    text = unquote(name.removeprefix("/"))
    try:
        return text.encode("latin-1").decode("utf-8")
    except UnicodeError:
        return text


def redirect(writer, page, owner, places):
    """Have a page's links lead to places of the file, and drop those to other files of the site."""
    site, kept = owner.split("/", 3)[2], []
    for reference in page.get("/Annots", []):
        link = reference.get_object()
        address = str(link.get("/A", {}).get("/URI", ""))
        if isinstance(link.get("/Dest"), str):  # on the same page of the book
            address = f"{owner}#{place_name(link['/Dest'])}"
        if f"//{site}/" not in address:
            kept.append(reference)
            continue
        whole, _, fragment = address.partition("#")
        place = places.get(f"{whole}#{unquote(fragment)}", places.get(whole))
        if place is not None:
            link.pop("/A", None)
            link[NameObject("/Dest")] = destination(writer, *place)
            kept.append(reference)
    if "/Annots" in page:
        page["/Annots"].clear()
        page["/Annots"].extend(kept)


def destination(writer, number, top):
    """Return what leads to a height of a page, at the size at which the reader reads."""
    height = NullObject() if top is None else FloatObject(top)
    page = writer.pages[number].indirect_reference
    return ArrayObject([page, NameObject("/XYZ"), NullObject(), height, NullObject()])


def offer(built, target):
    """Have the front page offer the file beside the archive of all notebooks."""
    page, name = built / "intro.html", f"downloads/{target.name}"
    if not page.exists():
        return
    text = page.read_text(encoding="utf-8")
    entry = re.search(r'(?s)<li><a href="downloads/notebooks\.zip".*?</li>\n', text)
    if entry and name not in text:
        own = entry[0].replace("downloads/notebooks.zip", name).replace("file-archive", "file")
        own = re.sub(r'(?<=title=")[^"]*', lambda _: say("All pages in one file"), own)
        own = own.replace(f">{say('All notebooks')}<", f">{say('The book as PDF')}<")
        page.write_text(text.replace(entry[0], entry[0] + own), encoding="utf-8")
    (built / name).parent.mkdir(exist_ok=True)
    shutil.copy(target, built / name)


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
    offer(built, target)
    print(target)
    return 0


if __name__ == "__main__":
    sys.exit(main())
