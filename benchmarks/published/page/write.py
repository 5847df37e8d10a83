"""The page of the book that says how wrong the simulated clock is, and the bands of `simgpu.bands`.

``python -m benchmarks.published.page`` writes both from the record in records/ (see `record`).
``... FILE.csv ...`` (or folders of them) first predicts these tables of published measurements, and
simulates the book's conclusions, for a new record; with ``--keep`` it puts the tables into the
record that is there, with ``--study`` the conclusions. ``--check`` says whether the stored page is
what the record gives.
"""

import argparse
import os
import re
from pathlib import Path

from benchmarks.charts import svg
from benchmarks.published import bands, record, tables
from benchmarks.published.page import (
    blocks,
    claims,
    coverage,
    drawings,
    findings,
    ranks,
    summary,
)
from benchmarks.published.page.programs import compiled, gallery
from benchmarks.published.shared import markdown
from benchmarks.published.study import assumed
from simgpu.bands.find import bands as known_bands

ROOT = Path(__file__).parents[3]
PAGE = "chapters/how-far-to-trust-the-clock.md"
BANDS = "simgpu/bands/bands.csv"
TEMPLATE = Path(__file__).with_name("page.md")
_SLOT = re.compile(r"<<(\w+)(?::([^>]*))?>>")


def fill(template, values):
    """Replace ``<<name>>`` and ``<<name:format>>`` by values; a name that is missing is an error.

    Examples
    --------
    >>> fill("error <<worst:.0%>> of {all}", {"worst": 0.256})
    'error 26% of {all}'
    """
    return _SLOT.sub(lambda slot: format(values[slot[1]], slot[2] or ""), template)


def render(found, study, numbers):
    """Return the page, its figures and the bands, ``{path in the repository: content}``.

    `found` are `tables.Table`, `study` what `assumed.study` returns, `numbers` those of
    `findings.all_numbers`.
    """
    messages = findings.pairs(found, "collectives")
    steps = findings.pairs(found, "vtrain")
    one, more = findings.one_node(steps), findings.more_nodes(steps)
    launches, ranges = study
    values = {
        **numbers,
        **coverage.kind_numbers(found),
        "refused": coverage.refused(found),
        "table_answers": coverage.steps_table(found),
        "summary": blocks.summary_table(found),
        "table_programs": blocks.program_rows(found),
        "ranks": ranks.sentence(messages),
        "table_swept": blocks.swept_table(),
        "table_editions": coverage.edition_table(found),
        "table_script": coverage.script_table(),
        "table_compiled": compiled.pairs_table(),
        "table_gallery": gallery.tables(),
        "table_eight": blocks.eight_table(),
        "table_fits": coverage.fit_table(found),
        "table_paper": blocks.paper_table(found),
        "table_constants": blocks.constant_table(),
        "table_sweep": blocks.message_table(findings.sweep(messages), messages),
        "table_nodes": blocks.node_table(findings.several_nodes(messages)),
        "table_one": blocks.step_table(one),
        "table_order": blocks.order_table(one, more),
        "table_more": blocks.step_table(more),
        "study_ranges": blocks.range_table(ranges),
        "study_assumptions": blocks.assumption_table(ranges),
        "study_launches": blocks.launch_table(launches),
    }
    files = {}
    for name, (chart, alt, caption) in _figures(messages, one, more).items():
        file = f"trust-{name}.svg"
        files[f"chapters/img/{file}"] = svg(chart, alt)
        values[f"figure_{name}"] = markdown.figure(file, alt, caption)
    page = fill(TEMPLATE.read_text(encoding="utf-8"), values)
    return {PAGE: page, BANDS: bands.printed(found), **files}


def _figures(collectives, one, more):
    """Return ``{name: (chart, alternative text, caption)}``."""
    swept = blocks.sweep_curve(collectives)
    return {
        "sweep": (
            drawings.bandwidths([swept]),
            f"All-reduce on {swept.label}: bus bandwidth over size, predicted and published.",
            f"All-reduce on {swept.label}: the predicted (simulated) bandwidth meets the published "
            "one except around 1 MiB.",
        ),
        "one": (
            drawings.scatter(blocks.step_groups(one)),
            f"Predicted over measured step times of {len(one)} rows on one node, near the line.",
            f"{len(one)} training steps on one node: predicted (simulated, one constant fitted) "
            "over measured. Above the line: predicted too long.",
        ),
        "more": (
            drawings.scatter(blocks.step_groups(more)),
            f"Predicted over measured step times of {len(more)} rows on several nodes.",
            f"{len(more)} training steps on several nodes: predicted (simulated) over measured.",
        ),
    }


def main(arguments=None, root=ROOT):
    """Write the page, or check it; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.published.page")
    parser.add_argument("files", nargs="*", metavar="FILE.csv", help="tables of known families, or "
                        "folders of them, for a new record; none: the record as it is")  # fmt: skip
    parser.add_argument("--keep", action="store_true", help="keep the record's other tables, and "
                        "the conclusions in it")  # fmt: skip
    parser.add_argument("--study", action="store_true", help="put the conclusions, simulated anew, "
                        "into the record that is there")  # fmt: skip
    parser.add_argument("--check", action="store_true", help="write no page; fail if it is stale")
    options = parser.parse_args(arguments)
    if options.check and options.study:
        parser.error("--check writes nothing, and --study the record: give one of them")
    stored = root / record.PATH.relative_to(ROOT)
    if options.files:
        try:
            found = [tables.read(p, os.cpu_count()) for p in tables.find_files(options.files)]
        except tables.UnknownTableError as error:
            print(error)
            return 2
        if options.keep:
            kept, study = record.read(stored)
            record.write(record.renewed(kept, found), study, stored)
        else:
            record.write(found, assumed.study(), stored)
    found, study = record.read(stored)
    if options.study:
        study = assumed.study()
        record.write(found, study, stored)
    if not options.check:
        _write_bands(found, root)
    numbers = findings.all_numbers(found)
    wrong = claims.broken(numbers, *study, summary.missed(found))
    if wrong:
        print("The text of the page does not fit these tables. It says:", *wrong, sep="\n  ")
        return 1
    wanted = render(found, study, numbers)
    stale = [name for name, text in wanted.items() if _read(root / name) != text]
    for name in stale:
        if options.check:
            print(f"{name} is stale: write the page anew")
        else:
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(wanted[name], encoding="utf-8")
    return 1 if options.check and stale else 0


def _write_bands(found, root):
    """Write the bands before the page, which says how many of other runs lie inside them."""
    (root / BANDS).parent.mkdir(parents=True, exist_ok=True)
    (root / BANDS).write_text(bands.printed(found), encoding="utf-8")
    known_bands.cache_clear()


def _read(path):
    return path.read_text(encoding="utf-8") if path.exists() else None
