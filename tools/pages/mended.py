"""What the theme leaves to be wished for, mended in the finished pages.

Each rule is a pattern and what takes its place; a rule that is no longer needed changes nothing.
"""

import re
import shutil

from tools.pages import tables

RULES = [
    # What a field of a dataclass is by default.
    (r"(?<==)&lt;factory&gt;", "{}"),
    # The names of a term are words of their own where the search quotes them.
    (r"</dt><(?=d[td]\b)", "</dt>\n<"),
    # A script with 2000 icons: a style sheet has those that are shown (tools.pages.icons).
    (r"<script [^>]*fontawesome\.js[^>]*></script>\n?", ""),
    # A button's name is what stands on it.
    (r'(<button class="btn search-button-field[^>]*?) title="Search" aria-label="Search"', r"\1"),
    (r'(<summary) aria-label="Toggle hidden content"', r"\1"),
    # The entries of a list of sources are its items.
    (r'(<div class="citation"[^>]*) role="doc-biblioentry"', r'\1 role="listitem"'),
    # An option such as --ranks stays whole.
    (r'<span class="pre">(?=[^<]{1,24}</span>)(?=[^<]*-)', '<span class="pre whole">'),
    # No line begins with the comma behind a formula.
    (
        r'(?s)[(\u201c]?<span class="math notranslate"><math [^>]*display="inline">'
        r"(?:(?!</math>).)*</math></span>[,.;:?!)\u201d\u2019]+",
        r'<span class="whole">\g<0></span>',
    ),
    # A timeline with boxes too narrow to draw in the column takes the margin as well.
    (
        r'(?s)(<div class="output text_html)'
        r'(?="><div class="d2l-tl">(?:(?!\n</div>).)*?<div class="d2l-tl-note")',
        r"\1 full-width",
    ),
    # The chevron beside a page with pages below it has a name.
    (
        r'(<a class="reference internal" href="[^"]*">([^<]+)</a><details[^>]*><summary)'
        r'(?=><span class="toctree-toggle")',
        r'\1 aria-label="Pages below: \2"',
    ),
    # The logo leads to the front page: it is part of the navigation.
    (
        r'<div class="sidebar-primary-item">(?=\s*<a class="navbar-brand logo")',
        '<div class="sidebar-primary-item" role="navigation" aria-label="Front page">',
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
    # What is found are pages, terms and names.
    (
        "Search finished, found ${resultCount} page(s) matching the search query.",
        "Results found: ${resultCount}",
    ),
    # A page that is opened as a file may not read other files: no excerpts, instead of errors.
    ("else if (showSearchSummary)", 'else if (showSearchSummary && location.protocol !== "file:")'),
    ('<button class="copybtn', '<button aria-label="Copy" class="copybtn'),
]
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


def mend(page):
    """Return the HTML of a page, mended."""
    for pattern, replacement in RULES:
        page = re.sub(pattern, replacement, page)
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
    for path in [*static.glob("*.js"), *static.glob("scripts/*.js")]:
        script = path.read_text(encoding="utf-8")
        mended = script
        for old, new in IN_SCRIPTS:
            mended = mended.replace(old, new)
        if mended != script:
            path.write_text(mended, encoding="utf-8")


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
