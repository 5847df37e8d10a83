"""Checkers of how copies of tokens are combined, and of how many leave a node."""

import torch

import simgpu as sim
from d2lmini.checks.shared.ranks import differ, draw
from d2lmini.checks.shared.results import tensor, whole_number
from d2lmini.checks.shared.solution import checker

HIDDEN = 8


def choices(tokens, experts, active, seed=0):
    """Draw different experts for each token: whole numbers of shape (tokens, active)."""
    return draw(tokens, experts, seed=seed).topk(active).indices


@checker("combine(y, order, scores)")
def check_combine(combine):
    """Check the weighted sum of the results that come back to the rank of their tokens.

    Parameters
    ----------
    combine : callable
        ``combine(y, order, scores)``: row i of `y` is the result of copy ``order[i]``, which
        belongs to token ``order[i] // active``; `scores`, of shape (tokens, active), has the weight
        of each copy. Returns the sums, of shape (tokens, features), and sorts nothing.

    Raises
    ------
    AssertionError
        If a sum is wrong, or if it sorts; the message names the usual mistakes.
    """
    (gpu,) = sim.configure(1)
    for tokens, experts, active in ((1, 2, 1), (5, 4, 1), (6, 4, 2), (16, 8, 3)):
        order = choices(tokens, experts, active).flatten().argsort(stable=True)
        y, scores = draw(tokens * active, HIDDEN, seed=1), draw(tokens, active, seed=2).softmax(1)
        where = f"{tokens} tokens, {experts} experts, {active} for each token"
        right = _sums(_scattered(y, order), scores)
        begin = len(sim.trace())
        given = [x.to(gpu) for x in (y, order, scores)]
        got = tensor(combine.at(where)(*given), f"{where}: what combine returns", right.shape).cpu()
        if differ(got, right):
            raise AssertionError(
                f"{where}: the sums are wrong. {_explain_combine(got, y, order, scores)}"
            )
        names = {span.name for span in sim.trace()[begin:]}
        if names & {"sort", "topk", "argsort"}:
            raise AssertionError(
                f"{where}: the sums are right, but it sorts. `order` already says where each row "
                "belongs: write to that place instead of reading in another order"
            )
    print("combine: passed")


def _scattered(y, order):
    return torch.zeros_like(y).index_copy(0, order, y)


def _sums(copies, scores):
    return (copies.unflatten(0, scores.shape) * scores[..., None]).sum(1)


def _explain_combine(got, y, order, scores):
    active = scores.shape[1]
    other_scores = _sums(_scattered(y * scores.flatten()[:, None], order), torch.ones_like(scores))
    wrong = {
        "`scores` has the weights in the order of the tokens, `y` has its rows in the order of "
        "the experts: which weight belongs to row i?": other_scores,
        "y[order] reads row order[i] for copy i, but it is the other way round: row i is the "
        "result of copy order[i]": _sums(y[order], scores),
        "The rows of `y` are still sorted by expert": _sums(y, scores),
        "Each result counts with the score of its copy": _sums(
            _scattered(y, order), torch.ones_like(scores)
        ),
    }
    for hint, result in wrong.items():
        if not differ(got, result):
            return hint
    return f"Row i is the result of copy order[i], which belongs to token order[i] // {active}"


@checker("leaving(chosen, experts, nodes, home)")
def check_leaving(leaving):
    """Check how many rows of a rank leave its node, as copies and once for each token and node.

    Parameters
    ----------
    leaving : callable
        ``leaving(chosen, experts, nodes, home)``: `chosen`, of shape (tokens, active), has the
        experts of each token; node n has the experts from ``n * experts // nodes`` on; the tokens
        are in node `home`. Returns how many rows leave the node if each copy travels by itself, and
        how many if each token is sent once to each node that it needs.

    Raises
    ------
    AssertionError
        If a number is wrong; the message names the usual mistakes.
    """
    cases = (
        (32, 16, 8, 4, 1),
        (1, 4, 2, 2, 0),
        (64, 8, 2, 2, 1),
        (20, 16, 4, 8, 7),
        (9, 8, 3, 1, 0),
    )
    for tokens, experts, active, nodes, home in cases:
        chosen = choices(tokens, experts, active, seed=3)
        where = f"{tokens} tokens, {active} of {experts} experts, {nodes} nodes, home {home}"
        given = leaving.at(where)
        pair = given.items(given(chosen.clone(), experts, nodes, home), 2)
        names = "copies that leave", "rows if each token is sent once to a node"
        for got, right, name in zip(
            pair, rows_away(chosen, experts, nodes, home), names, strict=True
        ):
            got = whole_number(got, f"{where}: the number of {name}")
            if got != right:
                hint = _explain_leaving(got, chosen, experts, nodes, home)
                raise AssertionError(f"{where}: {right} {name}, not {got}. {hint}")
    print("leaving: passed")


def rows_away(chosen, experts, nodes, home):
    """Return the right answer; see `check_leaving`."""
    needed = [{e * nodes // experts for e in row} for row in chosen.tolist()]
    copies = sum(e * nodes // experts != home for row in chosen.tolist() for e in row)
    return copies, sum(len(of_token - {home}) for of_token in needed)


def _explain_leaving(got, chosen, experts, nodes, home):
    rows = chosen.tolist()
    needed = [{e * nodes // experts for e in row} for row in rows]
    wrong = {
        "That counts those that stay in the node, too": (
            chosen.numel(), sum(map(len, needed))
        ),
        "That counts tokens; a token that needs two other nodes is sent to both": (
            sum(bool(of_token - {home}) for of_token in needed),
        ),
        "The experts of a node follow each other: node 0 has the first ones": (
            sum(e % nodes != home for row in rows for e in row),
            sum(len({e % nodes for e in row} - {home}) for row in rows),
        ),
    }  # fmt: skip
    for hint, numbers in wrong.items():
        if got in numbers:
            return hint
    return f"Expert e is in node e // {experts // nodes}"
