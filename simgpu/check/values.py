"""Compare losses, gradients and learning rates."""

import math

from simgpu.check.findings import Finding
from simgpu.check.watch.tensors import norm, whole_of

_SAME_RATE = 1e-6
_ABOUT = 0.1  # means of micro-batches differ
TIMES_ONE = 10  # the gradient of a single parameter may differ by so many times the share


def difference(a, b) -> float:
    """Return the relative difference of two numbers; infinite if only one is finite.

    Examples
    --------
    >>> difference(1.0, 0.5)
    0.5
    """
    if a == b or (a != a and b != b):
        return 0.0
    share = abs(a - b) / max(abs(a), abs(b))
    return share if share == share else float("inf")


def loss(run, index) -> float | None:
    """Return what a step minimises: the sum over micro-batches, the mean over ranks that have it.

    That is what gradients are of if ranks average them.
    """
    each = rank_losses(run, index)
    return sum(each.values()) / len(each) if each else None


def rank_losses(run, index) -> dict[int, float]:
    """Return the loss of a step by rank."""
    return {n: sum(step.losses) for n, step in run.at(index).items() if step.losses}


def gradients(run, index) -> dict[str, list]:
    """Return the pieces of each gradient that together are all of it."""
    return assembled(step.gradients for step in run.at(index).values())


def assembled(of_ranks) -> dict[str, list]:
    """Return the pieces that together are all of each tensor: of copies, the first."""
    found = {}
    for pieces in of_ranks:
        for name, piece in pieces.items():
            terms = found.setdefault(name, {}).setdefault(piece.place, {})
            terms.setdefault(piece.term, piece)
    return {name: [*map(_added_up, parts.values())] for name, parts in found.items()}


def _added_up(terms):
    return terms[""] if "" in terms else whole_of([*terms.values()])


def gradient_norm(run, index) -> float | None:
    """Return the norm of all gradients of a step, before they are clipped."""
    found = gradients(run, index)
    return norm(piece for pieces in found.values() for piece in pieces) if found else None


def random(run) -> dict[str, str]:
    """Return what draws random numbers in training, and where."""
    found = {}
    for rank in run.ranks.values():
        found |= rank.random
    return found


_WHY = {
    "small": "each GPU divides by what all GPUs have together, and then the average over GPUs is "
    "taken as well; multiply the loss by their number, or add the gradients up",
    "large": "gradients are added up over GPUs or micro-batches, each of which takes a mean; "
    "divide by their number",
}


def compare_rates(one, many) -> Finding | None:
    """Compare learning rates step by step."""
    for i in range(min(one.num_steps, many.num_steps)):
        (mine,) = one.at(i).values()
        for rank, theirs in many.at(i).items():
            for key in mine.rates.keys() & theirs.rates.keys():
                a, b = mine.rates[key], theirs.rates[key]
                if difference(a, b) > _SAME_RATE:
                    cause, line = _why_rates(one, many, i, rank)
                    text = _both(f"{a:.6g}", f"{b:.6g}", many)
                    return Finding("learning rate", i + 1, text, cause, line, a, b)
    return None


def _why_rates(one, many, i, rank):
    calls = [
        sum(step.schedules for step in record.steps[1 : i + 1]) / max(1, i)
        for record in (one.ranks[0], many.ranks[rank])
    ]
    line = many.line("schedule", i) or many.line("step", i)
    if calls[0] and calls[1] != calls[0]:
        cause = (
            f"the scheduler advances {calls[1]:g} times a step on {len(many.ranks)} GPUs, "
            f"{calls[0]:g} on one: step it once for each optimizer.step(), or make its schedule "
            "as many times as long"
        )
        return cause, line
    if i == 0:
        return "the learning rate depends on the number of GPUs, perhaps to scale it", line
    return "the schedule depends on the number of GPUs, or of batches on each", line


def compare_losses(one, many, tolerance, steps) -> Finding | None:
    """Compare the losses of the first steps."""
    for i in range(steps):
        a, b = loss(one, i), loss(many, i)
        if a is None or b is None:
            continue
        if difference(a, b) > tolerance.at(i):
            text = _both(f"{a:.6g}", f"{b:.6g}", many)
            return Finding("loss", i + 1, text, _why_loss(one, many, i, a, b),
                           many.line("backward", i), a, b)  # fmt: skip
    return None


def _why_loss(one, many, i, a, b):
    size = len(many.ranks)
    each = rank_losses(many, i)
    if why := _why_micro_batches(one, many, i, a, b):
        return why
    if factor := factor_of(a, b, size, 1e-2):
        return f"{factor}: {_WHY[factor.split()[-1]]}"
    drawn = random(one)
    if i == 0 and drawn:
        what, where = next(iter(drawn.items()))
        return (
            f"{what} ({where}) draws other numbers on each GPU: compare without it before looking "
            "for other causes"
        )
    if i == 0 and len(each) > 1 and min(each.values()) < a < max(each.values()):
        shown = ", ".join(f"{value:.4g}" for value in list(each.values())[:4])
        losses = f"the ranks' losses ({shown}{', ...' if len(each) > 4 else ''})"
        count = f"{losses} count equally; on one GPU tokens or examples do"
        if max(_micro_batches(one, i), _micro_batches(many, i)) > 1:
            count = f"{losses} and their micro-batches count equally, not tokens or examples"
        return (
            f"{count}: divide each rank's sum by what all ranks have together, "
            "and multiply by the number of ranks"
        )
    if i == 0:
        return "the ranks compute something else: other initial weights, or statistics of a batch"
    return "what earlier steps have changed: see the other quantities"


def _micro_batches(run, index):
    """Return the number of losses of a rank in a step."""
    return max(len(step.losses) for step in run.at(index).values())


def _why_micro_batches(one, many, i, a, b):
    """Say that micro-batches are added up, if values differ about as much as their numbers."""
    mine, theirs = _micro_batches(one, i), _micro_batches(many, i)
    if mine == theirs or not theirs or difference(a * theirs, b * mine) > _ABOUT:
        return ""
    return (
        f"the losses of {mine} micro-batches are added up on one GPU, of {theirs} on each of "
        f"{len(many.ranks)}: divide each by their number"
    )


def factor_of(a, b, size, tolerance) -> str:
    """Say by which factor of the number of ranks `b` is off; "" if by none.

    Examples
    --------
    >>> factor_of(1.0, 0.25, 4, 1e-3), factor_of(1.0, 2.0, 2, 1e-3), factor_of(1.0, 0.7, 4, 1e-3)
    ('4 times too small', '2 times too large', '')
    """
    for factor in [n for n in range(size, 1, -1) if size % n == 0]:
        if difference(b * factor, a) <= tolerance:
            return f"{factor} times too small"
        if difference(b, a * factor) <= tolerance:
            return f"{factor} times too large"
    return ""


def root_of(a, b, size, tolerance) -> str:
    """Say by which root of a factor of the number of ranks `b` is too small; "" if by none.

    Examples
    --------
    >>> root_of(1.0, 0.7071, 4, 1e-3), root_of(1.0, 0.5, 4, 1e-3)
    ('√2', '')
    """
    for factor in range(2, size + 1):
        is_whole = math.isqrt(factor) ** 2 == factor
        if size % factor == 0 and not is_whole and difference(b * factor**0.5, a) <= tolerance:
            return f"√{factor}"
    return ""


def shared(one, many, index, own) -> list[str]:
    """Return the gradients that both runs have in a step, except of parameters in `own`."""
    theirs = gradients(many, index)
    return [name for name in gradients(one, index) if name in theirs and name not in own]


def compare_gradients(one, many, tolerance, steps, own) -> Finding | None:
    """Compare the norms of gradients in the first steps, except of parameters in `own`."""
    for i in range(steps):
        mine, theirs, names = gradients(one, i), gradients(many, i), shared(one, many, i, own)
        a, b = (norm(p for n in names for p in run[n]) for run in (mine, theirs))
        wrong = [n for n in names if _is_wrong(norm(mine[n]), norm(theirs[n]), a, tolerance.at(i))]
        if difference(a, b) > tolerance.at(i) or wrong:
            text = _both(f"norm {a:.6g}", f"norm {b:.6g}", many)
            cause = _why_micro_batches(one, many, i, a, b)
            cause = cause or _why_gradients(mine, theirs, names, wrong, a, b, many)
            return Finding("gradients", i + 1, text, cause, many.line("step", i), a, b)
    return None


def _is_wrong(a, b, total, share):
    return abs(a - b) > TIMES_ONE * share * max(a, b, 0.1 * total)


def _why_gradients(mine, theirs, names, wrong, a, b, many):
    if factor := factor_of(a, b, len(many.ranks), 1e-2):
        return f"{factor}: {_WHY[factor.split()[-1]]}"
    if root := root_of(a, b, len(many.ranks), 1e-3):
        return (
            f"{root} times too small: the norm that they are clipped by counts every parameter "
            f"{root[1:]} times, such as one added up over replicas of shards; add its square up "
            "over the shards of one replica"
        )
    if wrong and len(wrong) < len(names):
        name = max(wrong, key=lambda n: difference(norm(mine[n]), norm(theirs[n])))
        return (
            f"{len(wrong)} of {len(names)} parameters, most in {name}: {norm(mine[name]):.4g} and "
            f"{norm(theirs[name]):.4g}"
        )
    return "the ranks' shares are added with other weights, or are of another loss"


def _both(a, b, many):
    return f"one GPU {a}, {len(many.ranks)} GPUs {b}"
