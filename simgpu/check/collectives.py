"""Find collectives that only some ranks call."""

from collections import Counter

from simgpu.check.findings import Finding
from simgpu.ranks.process.describe_ranks import subject
from simgpu.ranks.process.scheduler import RanksError


def of_error(many) -> Finding | None:
    """Return what the error says with which a run has ended, if it is one between ranks."""
    if not isinstance(many.error, RanksError):
        return None
    text = str(many.error)
    headline, *lines = text.splitlines()
    explained = "\n".join([headline, *(f"    {line.strip()}" for line in lines)])
    cause = (
        "some ranks call what others do not: perhaps in a branch that depends on a rank's own data"
    )
    return Finding("collectives", many.num_steps + 1, explained, cause, _line(text))


def _line(text):
    """Return the first line of a program that a text names in brackets."""
    for part in text.replace("(", " ").replace(")", " ").replace(",", " ").split():
        name, _, number = part.partition(".py:")
        if name and number.rstrip(":;").isdecimal():
            return part.rstrip(":;")
    return ""


def of_steps(many, copies) -> Finding | None:
    """Find the first step in which ranks make other calls, or have other gradients to reduce.

    Parameters
    ----------
    many : RunRecord
    copies : bool
        Whether all ranks have the same parameters.
    """
    for i in range(many.num_steps):
        if finding := _counts(many, i) or (copies and _gradients(many, i)):
            return finding
    return None


def _counts(many, i):
    """Find a group whose members call its collectives unequally often in a step."""
    steps = many.at(i)
    for members in {call[0] for step in steps.values() for call in step.calls}:
        totals = {n: _calls(steps[n], members).total() for n in members if n in steps}
        few, most = min(totals, key=totals.get), max(totals, key=totals.get)
        if totals[few] != totals[most]:
            more = _calls(steps[most], members) - _calls(steps[few], members)
            return Finding(
                "collectives", i + 1,
                f"rank {most} makes {totals[most]} calls in this step, rank {few} {totals[few]}",
                "a branch that depends on a rank's own data: all ranks of a group must call",
                next(iter(more), ""), None, totals[most],
            )  # fmt: skip
    return None


def _calls(step, members):
    """Return how often each line calls a collective of a group."""
    return Counter({line: n for (group, line), n in step.calls.items() if group == members})


def _gradients(many, i):
    """Find copies of a parameter of which only some have a gradient, though ranks communicate."""
    steps = many.at(i)
    lines = Counter()
    for step in steps.values():
        for (_, line), count in step.calls.items():
            lines[line] += count
    for name in {n: None for step in steps.values() for n in step.gradients}:
        held = [n for n, step in steps.items() if name in step.parameters]
        have = [n for n in held if name in steps[n].gradients]
        if lines and len(have) < len(held):
            without = [n for n in held if n not in have]
            return Finding(
                "collectives", i + 1,
                f"{name} has a gradient on {subject(have)}, none on {subject(without)}: calls "
                "that reduce it are left out there",
                "an expert without tokens, or a branch that some ranks do not take: use the "
                "parameter there, too, with no tokens, so that all ranks make each call",
                max(lines, key=lines.get), None, name,
            )  # fmt: skip
    return None
