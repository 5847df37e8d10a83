"""The report, as a text and as JSON."""

import json
from dataclasses import asdict
from pathlib import Path
from textwrap import fill

from simgpu.check.findings import DIFFERS, EQUAL

WIDTH = 100
FORMAT = "simgpu check 1"


def text_of(result, tolerance, name, steps, size) -> str:
    """Return the report: a verdict, what differs, what else to know.

    Parameters
    ----------
    result : Result
    tolerance : Tolerance
    name : str
        Of the script.
    steps : int
        How many were compared.
    size : int
        Number of GPUs.
    """
    lines = [verdict(result, name, steps, size)]
    for finding in result.found:
        lines += f"since step {finding.step}: {finding.quantity}: {finding.text}".splitlines()
        where = f" ({finding.line})" if finding.line else ""
        lines.append(f"  probable cause{where}: {finding.cause}")
    if result.not_compared:
        lines.append(f"not compared: losses and gradients, since {result.not_compared}")
    lines.append(f"tolerance: {tolerance.why}")
    lines += [f"note: {note}" for note in result.notes]
    return "\n".join(
        fill(line, WIDTH, subsequent_indent="    ", break_on_hyphens=False) for line in lines
    )


def verdict(result, name, steps, size) -> str:
    """Return the first line of a report."""
    runs = f"{name} on one GPU and on {size}"
    if result.code == DIFFERS:
        names = list(dict.fromkeys(finding.quantity for finding in result.found))
        what = " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
        return f"differs: {runs}, since step {result.found[0].step}: {what}"
    if result.code == EQUAL:
        count = f"{steps} steps" if steps != 1 else "one step"
        return f"equal: {runs}, in {count}"
    return f"cannot tell: {runs} cannot be compared"


def dict_of(result, tolerance, name, steps, size) -> dict:
    """Return the report for JSON; parameters as for `text_of`.

    Returns
    -------
    dict
        ``format``, ``verdict`` (the first line), ``exit_code``; ``findings``: a list of what
        `Finding` holds; ``not_compared``, ``notes``, ``steps``, ``gpus``; ``tolerance``: how it
        was chosen and its ``shares`` by step.
    """
    return {
        "format": FORMAT,
        "verdict": verdict(result, name, steps, size),
        "exit_code": result.code,
        "findings": [asdict(finding) for finding in result.found],
        "not_compared": result.not_compared,
        "notes": result.notes,
        "steps": steps,
        "gpus": size,
        "tolerance": {"why": tolerance.why, "shares": tolerance.shares},
    }


def write_json(path, content) -> None:
    """Write JSON to a file, or print it for ``-``."""
    text = json.dumps(content, indent=1, allow_nan=True)
    if path == "-":
        print(text)
    else:
        Path(path).write_text(f"{text}\n", encoding="utf-8")
