"""What is wrong with a page that a browser has opened."""

from pathlib import Path

import axe_core_python

AXE = Path(axe_core_python.__file__).with_name("axe.min.js").read_text(encoding="utf-8")
ANSWER = (
    "/* finds what is wrong */ axe.run({resultTypes: ['violations'], preload: false, %s}).then("
)
ANSWER += "found => found.violations.filter(v => ['critical', 'serious'].includes(v.impact))"
ANSWER += ".map(v => `${v.impact}: ${v.id}, ${v.nodes.length} times, first "
ANSWER += "${v.nodes[0].target.join(' ')}: ${v.nodes[0].failureSummary}`))"
COLOURS = "runOnly: ['color-contrast', 'link-in-text-block']"
# Of what repeats a thousand times, such as coloured words of code, three of a kind are looked at.
THINNED = """(() => {
  const seen = {};
  for (const e of [...document.querySelectorAll('.highlight span, svg *, td *, math *')]) {
    const kind = e.tagName + e.getAttribute('class') + Boolean(e.closest('.cell_output'));
    seen[kind] = (seen[kind] || 0) + 1;
    if (seen[kind] > 3) e.closest('svg') ? e.remove() : e.replaceWith(...e.childNodes);
  }
  document.normalize();
  const still = '<style>* { transition: none !important; }</style>';
  document.head.insertAdjacentHTML('beforeend', still);
})()"""
# Plots that a phone shows so small that nobody can read them.
TINY = """[...document.querySelectorAll('.cell_output img')].filter(
    e => e.offsetWidth && e.offsetWidth < 0.6 * e.naturalWidth).map(e => e.alt)"""
# Light grounds on a dark page.
PLATES = """[...document.querySelectorAll('article *')].filter(e => {
  const [r, g, b, a = 1] = getComputedStyle(e).backgroundColor.match(/[\\d.]+/g).map(Number);
  return a > 0.5 && r + g + b > 400 && e.offsetWidth * e.offsetHeight > 2000 && !e.closest('svg');
}).map(e => e.className)"""
WIDTH = "document.documentElement.scrollWidth"
PHONE = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}
SETTLED = "new Promise(done => setTimeout(done, 100))"


def impediments(visitor, options=""):
    """Return what keeps people from using the page that is open."""
    return visitor.ask(ANSWER % options, awaitPromise=True)


def examine(visitor, address):
    """Return all that is wrong with a page at an address, in short."""
    visitor.visit(address)
    origin = "file://" if address.startswith("file:") else address.split("/", 3)[2]
    found = {
        "said": visitor.said(),
        "asked elsewhere": [r for r in visitor.requests() if origin not in r],
        "ids that are not one": visitor.ask(
            "[...document.querySelectorAll('[id]')].map(e => e.id)"
            ".filter((id, i, all) => all.indexOf(id) < i)"
        ),
    }
    visitor.call("Emulation.setDeviceMetricsOverride", **PHONE)
    width = visitor.ask(WIDTH)
    found["tiny plots on a phone"] = visitor.ask(TINY)
    visitor.call("Emulation.clearDeviceMetricsOverride")
    return {**found, "wider than a phone": width if width > PHONE["width"] else None}


def faults(found):
    """Return what was found, without the pages that are as they should be."""
    found = {name: {k: v for k, v in page.items() if v} for name, page in found.items()}
    return {name: page for name, page in found.items() if page}


def impediments_in_light_and_dark(visitor):
    """Return what keeps people from using the page that is open, whose text is thinned out."""
    visitor.ask(f"{AXE}; {THINNED}; 0")
    light = impediments(visitor)
    visitor.ask("document.documentElement.dataset.theme = 'dark'")
    visitor.ask(SETTLED, awaitPromise=True)
    return {"light": light, "dark": impediments(visitor, COLOURS), "plates": visitor.ask(PLATES)}
