"""Repairs of the theme's HTML, made in the finished pages.

Each rule is a pattern and what takes its place; a rule that is no longer needed changes nothing.
None looks for the theme's words, which are in the language of the book.
"""

import html
import re
import shutil

from tools.pages import tables
from tools.words import say, spellings

BEFORE = r"(\u201c\uff08\u300a\u300c"  # opens a bracket or a quotation, in any language
AFTER = r",.;:?!)\u201d\u2019'\uff0c\u3002\u3001\uff1b\uff1a\uff1f\uff01\uff09\u300b\u300d"
RULES = [
    # The front page has the title of the book.
    (r"<title>([^<]+) &#8212; \1</title>", r"<title>\1</title>"),
    # What a field of a dataclass is by default.
    (r"(?<==)&lt;factory&gt;", "{}"),
    # The names of a term are words of their own where the search quotes them.
    (r"</dt><(?=d[td]\b)", "</dt>\n<"),
    # A script with 2000 icons: a style sheet has those that are shown (tools.pages.icons).
    (r"<script [^>]*fontawesome\.js[^>]*></script>\n?", ""),
    # A button's name is what stands on it.
    (r'(<button class="btn search-button-field[^>]*?) title="[^"]*" aria-label="[^"]*"', r"\1"),
    (r'(<summary) aria-label="[^"]*"(?=>(?!<span class="toctree-toggle"))', r"\1"),
    # The entries of a list of sources are its items.
    (r'(<div class="citation"[^>]*) role="doc-biblioentry"', r'\1 role="listitem"'),
    # An option such as --ranks stays whole.
    (r'<span class="pre">(?=[^<]{1,24}</span>)(?=[^<]*-)', '<span class="pre whole">'),
    # No line begins with the comma, or a suffix's apostrophe, behind a formula.
    (
        rf'(?s)[{BEFORE}]?<span class="math notranslate"><math [^>]*display="inline">'
        rf"(?:(?!</math>).)*</math></span>[{AFTER}]+",
        r'<span class="whole">\g<0></span>',
    ),
    # A timeline with boxes too narrow to draw in the column takes the margin as well.
    (
        r'(?s)(<div class="output text_html)'
        r'(?="><div class="d2l-tl">(?:(?!\n</div>).)*?<div class="d2l-tl-note")',
        r"\1 full-width",
    ),
    # A column without a name.
    (r'<th class="head">(?:<p></p>)?</th>', '<td class="head"></td>'),
    # What is offered is downloaded, not shown.
    (r'(<a href="[^"]*downloads/[^"/]+") target="_blank"', r"\1 download"),
    # No advertisement will ever stand there.
    (r'(?s)<div class="sidebar-primary-item">\s*<div id="ethical-ad-placement".*?</div></div>', ""),
]
IN_SCRIPTS = [
    ("console.log(", "void("),  # nobody reads what a script has done
    # A page that is opened as a file may not read other files: no excerpts, instead of errors.
    ("else if (showSearchSummary)", 'else if (showSearchSummary && location.protocol !== "file:")'),
]
# The chevron beside a page with pages below it has a name, and so has the logo, which leads to the
# front page: it is part of the navigation.
CHEVRON = re.compile(
    r'(<a class="reference internal" href="[^"]*">([^<]+)</a><details[^>]*><summary)'
    r'(?=><span class="toctree-toggle")'
)
LOGO = re.compile(r'<div class="sidebar-primary-item">(?=\s*<a class="navbar-brand logo")')
ATTRIBUTE = re.compile(r' (title|aria-label|placeholder|data-bs-title)="([^"]*)"')
FORMULA_LINK = re.compile(  # a link that is nothing but a formula has no name for screen readers
    r'(?s)(<a class="reference internal" href="[^"]*")(?=>(<span class="math notranslate"><math'
    r"(?:(?!</math>).)*</math></span>)</a>)"
)
PROMPT = re.compile(r'(?<=admonition-title">)[^<]+(?=</p>)')  # of a folded cell
SEARCH_SCRIPTS = (
    r'\s*<script src="[^"]*(?:searchtools|language_data|searchindex)\.js[^"]*"></script>'
)
IN_SHEETS = [  # the letters of an icon font, for icons that are drawn in another way
    (r"@font-face\{[^}]*Font Awesome[^}]*\}", ""),
    (r"(?<=\})(?:\.fa-[a-z0-9-]+:{1,2}(?:before|after),?)+\{content:[^}]*\}", ""),
]
UNUSED = ("scripts/fontawesome.js", "vendor/fontawesome", "scripts/*.map", "styles/*.map")


def left_in_english():
    """Return what the theme says in English in some languages, and what this copy says."""
    left = (
        spellings("Link to this heading"), spellings("Link to this image"),
        spellings("Link to this definition"), spellings("Link to this table"),
        spellings("Link to this code"), spellings("Permalink to this heading"),
        spellings("Search"), spellings("Search..."), spellings("Light"), spellings("Dark"),
        spellings("System Settings"), spellings("Color mode"), spellings("Main"),
        spellings("Toggle primary sidebar"), spellings("Toggle secondary sidebar"),
        spellings("Fullscreen mode"), spellings("Download this page"), spellings("Page"),
        spellings("Version warning"), spellings("previous page"), spellings("next page"),
        spellings("Click to show"), spellings("Click to hide"), spellings("Timeline"),
        spellings("Copy"), spellings("Copy to clipboard"), spellings("Copied!"),
        spellings("Failed to copy"),
    )  # fmt: skip
    return {english: said for said, *rest in left for english in rest}


def in_this_language(page):
    """Return a page whose buttons and links have names in the language of this copy."""
    left = left_in_english()

    def named(found):
        name = left.get(found[2])
        return found[0] if name is None else f' {found[1]}="{html.escape(name)}"'

    for hint in ("Click to show", "Click to hide"):  # in a script of the page
        page = page.replace(f"'{hint}'", f"'{quoted(left.get(hint, hint))}'")
    return ATTRIBUTE.sub(named, page) if left else page


def with_names(page):
    """Return a page in which what has no name of its own says what it leads to."""
    front = say("Front page")
    page = LOGO.sub(
        f'<div class="sidebar-primary-item" role="navigation" aria-label="{front}">', page
    )
    return CHEVRON.sub(
        lambda link: f'{link[1]} aria-label="{say("Pages below: {title}", title=link[2])}"', page
    )


def mend(page):
    """Return the HTML of a page, mended."""
    for pattern, replacement in RULES:
        page = re.sub(pattern, replacement, page)
    page = with_names(in_this_language(page))
    page = FORMULA_LINK.sub(
        lambda link: f'{link[1]} aria-label="{re.sub("<[^>]*>", "", link[2]).strip()}"', page
    )
    page = PROMPT.sub(lambda words: re.sub(r"`([^`]+)`", r"<code>\1</code>", words[0]), page)
    page = tables.mend(page.replace("console.log(", "void("))
    if 'id="search-results"' not in page:  # that page searches; no other one needs the index
        page = re.sub(SEARCH_SCRIPTS, "", page)
    return page


def mend_scripts(static):
    """Mend the theme's scripts, in the copies that the pages load."""
    # What is found are pages, terms and names.
    found = "Search finished, found ${resultCount} page(s) matching the search query."
    said = [(found, quoted(say("Results found: {count}", count="${resultCount}")))]
    copy = f'<button aria-label="{quoted(say("Copy"))}" class="copybtn'
    said.append(('<button class="copybtn', copy))
    for english, own in left_in_english().items():  # of the buttons that copy and unfold
        said.append((f"'{english}'", f"'{quoted(own)}'"))
    for path in [*static.glob("*.js"), *static.glob("scripts/*.js")]:
        script = path.read_text(encoding="utf-8")
        mended = script
        for old, new in IN_SCRIPTS + said:
            mended = mended.replace(old, new)
        if mended != script:
            path.write_text(mended, encoding="utf-8")


def quoted(text):
    """Return a text as it stands between any quotes of a script."""
    return re.sub(r"([\\'\"`])", r"\\\1", text)


def mend_sheets(static):
    """Mend the theme's style sheets, in the copies that the pages load."""
    for path in static.glob("styles/*.css"):
        sheet = path.read_text(encoding="utf-8")
        for pattern, replacement in IN_SHEETS:
            sheet = re.sub(pattern, replacement, sheet)
        path.write_text(sheet, encoding="utf-8")


def drop_unused(static):
    """Remove what no page loads."""
    for pattern in UNUSED:
        for path in static.glob(pattern):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
