"""Compare the ranks of a run with each other, and the types that runs keep."""

from simgpu.check.findings import Finding
from simgpu.check.values import assembled, difference
from simgpu.check.watch.observer import HALF
from simgpu.check.watch.tensors import norm


def are_copies(one, many) -> bool:
    """Return whether each rank holds the parameters of one GPU, or parts that PyTorch knows of."""
    wanted = _sizes(next(iter(one.ranks.values())).start)
    return all(_sizes(rank.start) == wanted for rank in many.ranks.values())


def own_parameters(one, many) -> set[str]:
    """Return the names that ranks use for parameters of their own, such as their experts.

    Ranks that hold the parameters of one GPU have copies, or parts that PyTorch knows of; else
    those that have another size, or differ from the start, are a rank's own.
    """
    if are_copies(one, many):
        return set()
    wanted = _sizes(next(iter(one.ranks.values())).start)
    start = {n: rank.start for n, rank in many.ranks.items()}
    of_ranks = {pair for pieces in start.values() for pair in _sizes(pieces).items()}
    return {name for name, size in of_ranks if wanted.get(name, size) != size} | {
        name for name, _, _ in _unequal(start)
    }


def note_of_missing(one, many) -> str:
    """Return a note on parameters of one GPU that no rank has by that name."""
    wanted = next(iter(one.ranks.values())).start
    missing = wanted.keys() - {name for rank in many.ranks.values() for name in rank.start}
    if not missing:
        return ""
    return (
        f"{len(missing)} of {len(wanted)} parameters have other names on {len(many.ranks)} GPUs, "
        f"such as {min(missing)}: their gradients were not compared"
    )


def _sizes(pieces):
    return {name: piece.numel for name, piece in pieces.items()}


def _unequal(pieces_of):
    """Yield names of which ranks hold the same part, but not equal ones, and two such ranks."""
    first = {}
    for number, pieces in pieces_of.items():
        for name, piece in pieces.items():
            other = first.setdefault((name, piece.numel, piece.place), (number, piece))
            if other[1].digest != piece.digest:
                yield name, other[0], number


def why_other_start(one, many, own) -> str:
    """Say that the runs begin with other weights; "" if they begin with the same."""
    mine = assembled([next(iter(one.ranks.values())).start])
    theirs = assembled(rank.start for rank in many.ranks.values())
    for name in mine:
        if name not in theirs or name in own or not theirs[name]:
            continue
        a, b = norm(mine[name]), norm(theirs[name])
        half = theirs[name][0].dtype in HALF
        if difference(a, b) > (1e-2 if half else 1e-4):
            return (
                f"the initial weights differ, such as {name}: norm {a:.6g} on one GPU, {b:.6g} on "
                f"{len(many.ranks)}. Seed all ranks alike before the model is made; if the script "
                "resumes from what it has written, give --before"
            )
    return ""


def starts_elsewhere(one, again) -> str:
    """Return a parameter with which two runs on one GPU do not begin alike; "" if they do."""
    mine, theirs = (next(iter(run.ranks.values())).start for run in (one, again))
    return next((n for n in mine.keys() & theirs.keys() if mine[n].digest != theirs[n].digest), "")


def compare_ranks(many, own) -> Finding | None:
    """Find parameters that are no longer equal on ranks that hold the same part of them."""
    for i in range(many.num_steps):
        parameters = {n: step.parameters for n, step in many.at(i).items()}
        wrong = [found for found in _unequal(parameters) if found[0] not in own]
        if wrong:
            name, a, b = wrong[0]
            names = dict.fromkeys(found[0] for found in wrong)
            norms = [parameters[rank][name].squares ** 0.5 for rank in (a, b)]
            digits = 6 if f"{norms[0]:.6g}" != f"{norms[1]:.6g}" else 12
            text = (
                f"{len(names)} drift apart between ranks, such as {name}: norm "
                f"{norms[0]:.{digits}g} on rank {a}, {norms[1]:.{digits}g} on rank {b}"
            )
            return Finding("parameters", i + 1, text, _why(many, i, name, a, b),
                           many.line("step", i), None, len(names))  # fmt: skip
    return None


def _why(many, i, name, a, b):
    start = [many.ranks[rank].start.get(name) for rank in (a, b)]
    if i == 0 and None not in start and start[0].digest != start[1].digest:
        return (
            "they are not equal before the first step: seed all ranks alike before the model is "
            "made, or broadcast it (DistributedDataParallel does)"
        )
    steps = many.at(i)
    if not any(step.calls for step in steps.values()):
        return (
            "no collective is called in this step: wrap the model in DistributedDataParallel, or "
            "reduce its gradients"
        )
    if i == 0 and many.num_steps > 1 and not any(step.calls for step in many.at(1).values()):
        return (
            "no collective is called in the next step: call the model that DistributedDataParallel "
            "returns, not its .module, or reduce its gradients"
        )
    found = [steps[rank].gradients.get(name) for rank in (a, b)]
    if None in found or found[0].digest != found[1].digest:
        return (
            "their gradients differ between the ranks: they are not reduced, or are changed after "
            "that, such as by clipping on each rank or by no_sync() in the last micro-batch"
        )
    return "their gradients are equal, the update is not: learning rates or states of optimizers"


def compare_types(one, many) -> Finding | None:
    """Compare the types of parameters and of optimizers' states."""
    for i in range(min(one.num_steps, many.num_steps)):
        mine = one.at(i)[0].types
        theirs = {}
        for step in many.at(i).values():
            theirs |= step.types
        wrong = [name for name in mine if theirs.get(name, mine[name]) != mine[name]]
        if wrong:
            name = wrong[0]
            text = (
                f"{len(wrong)} of {len(mine)} parameters and states, such as {name}: one GPU "
                f"{mine[name]}, {len(many.ranks)} GPUs {theirs[name]}"
            )
            cause = "they are converted on one way only"
            if theirs[name] in HALF:
                cause = (
                    f"the master weights are kept in {theirs[name]}, and small updates are lost"
                    f"{_lost(many, i)}: convert the model to float32 before it is sharded and the "
                    "optimizer is made"
                )
            return Finding("types", i + 1, text, cause, many.line("step", i), mine[name],
                           theirs[name])  # fmt: skip
    return None


def _lost(run, i):
    same = sum(step.lost[0] for step in run.at(i).values())
    moved = sum(step.lost[1] for step in run.at(i).values())
    return f" ({same:,} of {moved:,} elements with a gradient stayed the same)" if same else ""


def note_of_types(one) -> str:
    """Return a note if one GPU, too, updates parameters of 16 bits."""
    if not one.num_steps or not (lost := _lost(one, 0)):
        return ""
    return f"the optimizer updates parameters of 16 bits, on one GPU as well, step 1:{lost}"
