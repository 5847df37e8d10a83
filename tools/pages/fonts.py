"""The book's typefaces, from packages, cut down to the characters that its pages have."""

import importlib.util
import re
import shutil
from pathlib import Path

from fontTools import subset

# Letters of Western languages, punctuation, arrows; for formulas, Greek and operators as well.
TEXT = [*range(0x20, 0x7F), *range(0xA0, 0x180), *range(0x2010, 0x2040), 0x20AC, 0x2190, 0x2192]
TEXT += [0x2212, 0x2260, 0x2264, 0x2265, 0x2248, 0x00D7]
GREEK = [*range(0x391, 0x3CA), 0x3D1, 0x3D5, 0x3F5]
OPERATORS = [0x210E, 0x2113, *range(0x2190, 0x219A), *range(0x2200, 0x2270), *range(0x2295, 0x229A)]
OPERATORS += [
    0x22A4,
    *range(0x22C0, 0x22C8),
    *range(0x2308, 0x230C),
    0x23DE,  # braces above and below a term
    0x23DF,
    *range(0x27E8, 0x27EA),
    *range(0x27F5, 0x27FB),
    0x2061,
]
ITALIC = [*range(0x1D434, 0x1D468), *range(0x1D6E2, 0x1D71C)]
BASIC = [*range(0x20, 0x7F), 0xA0, 0xB0, 0xB1, 0xB7, 0xD7, 0xF7, *range(0x2010, 0x2027)]
MATH = [*BASIC, *GREEK, *OPERATORS, *ITALIC]

THEME = "pydata_sphinx_theme/theme/pydata_sphinx_theme/static/"


def find(name):
    """Return where a file of a package is, without importing the package."""
    package, _, rest = name.partition("/")
    return Path(importlib.util.find_spec(package).origin).parent / rest


def glyphs():
    """Return the letters of the icon font that the theme's style sheet names."""
    sheet = find(THEME + "styles/pydata-sphinx-theme.css").read_text(encoding="utf-8")
    named = re.findall('--pst-icon[a-z-]*:"(.)"', sheet)
    return [*map(ord, named), 0xF107]


SANS = "font_source_sans_pro/files/SourceSansPro-"
SERIF = "font_source_serif_pro/files/SourceSerifPro-"
# name: where it is, its characters, the family, weight and style that the style sheet calls it by
FONTS = {
    "text": (SERIF + "Regular.ttf", TEXT, "Book Text", 400, "normal"),
    "text-italic": (SERIF + "It.ttf", TEXT, "Book Text", 400, "italic"),
    "text-bold": (SERIF + "Semibold.ttf", TEXT, "Book Text", 600, "normal"),
    "heading": (SANS + "Regular.ttf", TEXT, "Book Sans", 400, "normal"),
    "heading-bold": (SANS + "Semibold.ttf", TEXT, "Book Sans", 600, "normal"),
    "icons": (
        THEME + "vendor/fontawesome/webfonts/fa-solid-900.ttf",
        glyphs(),
        "Font Awesome 6 Free",
        900,
        "normal",
    ),
    "formula": ("ziamath/fonts/STIXTwoMath-Regular.ttf", MATH, "Book Math", 400, "normal"),
}
LICENCE = "SIL Open Font License 1.1: Source Serif and Source Sans, Adobe; STIX Two, the STIX"
LICENCE += " authors; Font Awesome Free, Fonticons"


def cut(source, characters, target):
    """Write a font with the given characters only, for browsers."""
    options = subset.Options()
    options.flavor = "woff"
    options.hinting = False
    options.layout_features = ["kern", "liga", "ssty", "dtls", "mark", "mkmk"]
    options.name_IDs = [0, 1, 2, 13, 14]  # names and the licence
    font = subset.load_font(str(source), options)
    cutter = subset.Subsetter(options)
    cutter.populate(unicodes=characters)
    cutter.subset(font)
    subset.save_font(font, str(target), options)


def write(folder, cache):
    """Write the fonts and their style sheet; what is in the cache is not made again."""
    for place in (folder / "fonts", cache):
        place.mkdir(parents=True, exist_ok=True)
    rules = [f"/* {LICENCE} */"]
    for name, (source, characters, family, weight, style) in FONTS.items():
        kept = cache / f"{name}.woff"
        if not kept.exists() or kept.stat().st_mtime < Path(__file__).stat().st_mtime:
            cut(find(source), characters, kept)
        shutil.copy(kept, folder / "fonts" / kept.name)
        rules.append(
            f'@font-face {{ font-family: "{family}"; font-weight: {weight}; font-style: {style}; '
            f'font-display: swap; src: url("fonts/{kept.name}") format("woff"); }}'
        )
    (folder / "fonts.css").write_text("\n".join(rules) + "\n", encoding="utf-8")
