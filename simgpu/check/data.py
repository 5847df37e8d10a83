"""Compare which examples were seen: in each step, in each pass over the data, in the next pass."""

from bisect import bisect_right
from collections import Counter
from itertools import accumulate, pairwise

from simgpu.check.findings import Finding
from simgpu.check.values import difference, rank_losses
from simgpu.check.watch.records import INPUTS

_FEWEST = 4  # examples in a row that are no coincidence


def main_data(run) -> str | None:
    """Return the data set that most examples of steps are of."""
    count = Counter()
    for rank in run.ranks.values():
        for step in rank.done:
            count.update({data: len(found) for data, found in step.examples.items()})
    if count.keys() != {INPUTS}:
        del count[INPUTS]
    return max(count, key=count.get, default=None)


def of_step(run, data, index) -> list[list]:
    """Return the examples of a step, of each rank that has others than the ranks before it."""
    lists = [step.examples.get(data, []) for step in run.at(index).values()]
    return [found for i, found in enumerate(lists) if found and found not in lists[:i]]


def comparable(one, many) -> tuple:
    """Return in how many first steps both runs see the same examples, and why not in more.

    Returns
    -------
    int
        The number of steps.
    str
        Why the next step cannot be compared, and the remedy; "" if all can.
    str
        A note, if it is not known what they see.
    """
    steps, data = min(one.num_steps, many.num_steps), main_data(one)
    if data is None or main_data(many) is None:
        note = "no batch came from a DataLoader: what the ranks are given was not compared"
        if (data is None) != (main_data(many) is None):
            note = "a DataLoader delivers batches in one of the runs only"
        return steps, "", note
    for i in range(steps):
        mine = [e for found in of_step(one, data, i) for e in found]
        theirs = [e for found in of_step(many, main_data(many), i) for e in found]
        if main_data(many) == INPUTS and set(mine) <= set(theirs):
            continue  # the other inputs are those of later stages of a pipeline
        if set(mine) != set(theirs):
            return i, _why(i, mine, theirs, len(many.ranks)), ""
    return steps, "", ""


def _why(i, mine, theirs, size):
    a, b = len(mine), len(theirs)
    counts = f"step {i + 1} has {a} examples on one GPU and {b} on {size} GPUs"
    if b == size * a:
        return (
            f"{counts}, since the script's batch size is that of a GPU. Give the run on one GPU "
            f"arguments with {size} times the batch, in one micro-batch: --one 'ARGUMENTS'"
        )
    if a != b:
        return f"{counts}: give arguments by which both have as many, with --one for one GPU"
    if isinstance((mine or theirs)[0], str):
        return (
            f"step {i + 1} computes with {a} examples in both runs, but others: give all ranks the "
            "seed of the data, and each its part; or --any-data compares all the same"
        )
    return (
        f"step {i + 1} has {a} examples in both runs, but others: "
        f"{_some(mine)} on one GPU, {_some(theirs)} on {size} GPUs. Draw the order from a seed "
        "that all ranks share, and deal it out in turns, as DistributedSampler does"
    )


def _some(examples):
    shown = sorted(map(str, examples), key=lambda text: (len(text), text))[:4]
    return ", ".join(shown) + (", ..." if len(examples) > 4 else "")


def compare_data(one, many) -> tuple:
    """Return the findings about examples, and notes.

    Returns
    -------
    list of Finding or None
    list of str
    """
    data = main_data(many)
    if data is None:
        return [], []
    notes = []
    found = [_same_on_all(many, data), _seen_again(one, many, data)]
    found += [_seen_twice(one, many, data, notes), _never_seen(one, many, data)]
    return found, notes


def _passes(run, data):
    """Return the passes of each rank over a data set."""
    return {
        number: [p for p in rank.passes if f"{p.data} of {p.size}" == data and p.examples]
        for number, rank in sorted(run.ranks.items())
    }


def _step_at(run, number, data, position):
    """Return in which step, counted from 1, a rank has used its example at a position."""
    lengths = [len(step.examples.get(data, [])) for step in run.ranks[number].steps]
    return min(bisect_right(list(accumulate(lengths)), position), len(lengths) - 1) + 1


def _same_on_all(many, data):
    """Find ranks that all compute the same."""
    if len(many.ranks) < 2 or not many.num_steps:
        return None
    lists = [step.examples.get(data, []) for step in many.at(0).values()]
    losses = [*rank_losses(many, 0).values()]
    whole = all(not p.place for step in many.at(0).values() for p in step.parameters.values())
    alike = [difference(losses[0], other) < 1e-6 for other in losses[1:]] if losses else []
    names = {tuple(step.parameters) for step in many.at(0).values()}
    if not (lists[0] and all(found == lists[0] for found in lists) and whole and len(names) == 1):
        return None
    if len(losses) < len(lists) or not all(alike):
        return None
    size = len(lists)
    return Finding(
        "examples", 1, f"all {size} GPUs see the same {len(lists[0])} examples, and compute the "
        "same loss", f"no sampler divides them: give the loader DistributedSampler, else {size} "
        "GPUs do the work of one", _line(many, data), None, _some(lists[0]),
    )  # fmt: skip


def _line(run, data, index=0):
    passes = next(iter(_passes(run, data).values()))
    return passes[index].line if index < len(passes) else ""


def _seen_again(one, many, data):
    """Find a pass that begins as, or is a part of, an earlier one, although it is shuffled."""
    for number, passes in _passes(many, data).items():
        for i, later in enumerate(passes):
            for j, earlier in enumerate(passes[:i]):
                if later.by_number and _is_part(later.examples, earlier.examples):
                    return _again(one, many, data, (number, j, i), passes)
    return None


def _again(one, many, data, place, passes):
    number, j, i = place
    position = sum(len(p.examples) for p in passes[:i])
    step = _step_at(many, number, data, position)
    shown = ", ".join(map(str, passes[i].examples[:4]))
    also = "; so it is on one GPU" if _repeats(one) else "; on one GPU it is not so"
    return Finding(
        "examples", step, f"pass {i + 1} over the data repeats the order of pass {j + 1}: "
        f"{shown}, ... on rank {number}{also}",
        "the sampler is at the same epoch in both: call sampler.set_epoch(epoch) before each pass, "
        "and after resuming, also on a loader that skips batches",
        passes[i].line, None, shown,
    )  # fmt: skip


def _repeats(run):
    data = main_data(run)
    passes = next(iter(_passes(run, data).values())) if data else []
    return any(
        _is_part(later.examples, earlier.examples)
        for i, later in enumerate(passes)
        for earlier in passes[:i]
        if later.by_number
    )


def _is_part(later, earlier):
    """Return whether a shuffled pass is a contiguous part of another."""
    n = len(later)
    gaps = {b - a for a, b in pairwise(later)} if n > 1 else {0}
    if n < _FEWEST or len(gaps) == 1:  # in order, or every k-th: not shuffled
        return False
    starts = (i for i, example in enumerate(earlier) if example == later[0])
    return any(earlier[i : i + n] == later for i in starts)


def _twice(run, data, index):
    """Return examples that a pass has more than once, and where: rank and position in the pass."""
    lists = {n: p[index].examples for n, p in _passes(run, data).items() if index < len(p)}
    seen, twice, done = set(), {}, []
    for number, examples in lists.items():
        if examples in done:
            continue
        done.append(examples)
        for position, example in enumerate(examples):
            if example in seen:
                twice.setdefault(example, (number, position))
            seen.add(example)
    return twice


def _seen_twice(one, many, data, notes):
    """Find examples that a pass has more than once, where that of one GPU has not."""
    size = len(many.ranks)
    for index in range(min(map(len, _passes(many, data).values()), default=0)):
        twice = _twice(many, data, index)
        passes = [p[index] for p in _passes(many, data).values()]
        mine = main_data(one)
        if not twice or (mine and index < len(_passes(one, mine)[0]) and _twice(one, mine, index)):
            continue
        if len(twice) < size and all(p.ended for p in passes):
            notes.append(
                f"pass {index + 1} has {len(twice)} examples twice, since {passes[0].size} cannot "
                f"be divided by {size}: a sampler pads the last batch"
            )
            continue
        example, (number, position) = next(iter(twice.items()))
        before = sum(len(p.examples) for p in _passes(many, data)[number][:index])
        return Finding(
            "examples", _step_at(many, number, data, before + position),
            f"{len(twice)} examples are seen twice in pass {index + 1}, the first: {example}, "
            f"again on rank {number}; on one GPU none is",
            "ranks draw their own shuffles, or parts of the data overlap: give all ranks the seed "
            "of the shuffle, and each every N-th example of it",
            _line(many, data, index), 0, len(twice),
        )  # fmt: skip
    return None


def _never_seen(one, many, data):
    """Find examples that a whole pass of N GPUs leaves out and that of one GPU has."""
    mine = main_data(one)
    if mine != data:
        return None
    ours, theirs = _passes(one, data)[0], _passes(many, data)
    for index in range(min([len(ours), *map(len, theirs.values())])):
        passes = [p[index] for p in theirs.values()]
        if not all(p.ended and p.by_number for p in (ours[index], *passes)):
            continue
        missing = set(ours[index].examples) - {e for p in passes for e in p.examples}
        if not missing:
            continue
        number, found = next(iter(theirs.items()))
        end = sum(len(p.examples) for p in found[: index + 1]) - 1
        return Finding(
            "examples", _step_at(many, number, data, end),
            f"{len(missing)} examples are never seen in pass {index + 1}, such as "
            f"{_some(missing)}; on one GPU all are",
            "parts of the data are left out: drop_last on each rank, or a number of examples that "
            "cannot be divided by the ranks", _line(many, data, index), 0, len(missing),
        )  # fmt: skip
    return None
