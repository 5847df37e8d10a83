"""Tokens go to their experts and come home: what the rows of each rank are, step by step."""

from __future__ import annotations

from tools.figures.strips.film import EMPTY, PASSED, Film
from tools.words import say

RANKS, TOKENS, EACH = 4, 4, 2  # ranks; tokens of a rank; experts of a rank
HOME, SHELVES, STEP, SIDE, SHELF, PLACES = 72, 244, 30, 27, 34, 6  # of the picture
COMPUTED = 3  # the state in which each row is with its expert
CHOSEN = ((5, 0, 3, 5), (2, 7, 5, 1), (6, 4, 0, 5), (3, 5, 6, 2))  # the expert of each token


def states():
    """Return what happens, and the rows of each rank: whose token, which one, its expert."""
    home = [[(r, t, CHOSEN[r][t]) for t in range(TOKENS)] for r in range(RANKS)]
    by_expert = [sorted(rows, key=lambda row: row[2]) for rows in home]
    sent = [
        [row for rows in by_expert for row in rows if row[2] // EACH == rank]
        for rank in range(RANKS)
    ]
    grouped = [sorted(rows, key=lambda row: row[2]) for rows in sent]
    return [
        (say("The router has chosen an expert for each token"), home),
        (say("Each rank sorts its tokens by expert"), by_expert),
        (say("The first all-to-all sends each token to the rank of its expert"), sent),
        (say("Each rank groups its rows by expert and multiplies"), grouped),
        (say("The rows are put back into the order in which they came"), sent),
        (say("The second all-to-all sends them home"), by_expert),
        (say("Each rank undoes its sort"), home),
    ]


def film():
    """Return the film of the layer: at home on the left, the shelves of experts on the right.

    A piece is pale; once its expert has multiplied it, it has a frame in its full colour.
    """
    made = Film(380)
    made.text(SHELVES, 14, say("experts"), "start")
    made.text(6, 332, say("rows; colour: home, number: expert"), "start")
    for rank in range(RANKS):
        y = _top(rank)
        made.text(6, y + 32, say("rank {n}", n=rank), "start")
        for token in range(TOKENS):
            made.box(HOME + STEP * token, y + 19, SIDE, SIDE, EMPTY)
        for own in range(EACH):
            made.text(SHELVES - 16, y + 13 + SHELF * own, str(EACH * rank + own), "start")
            made.box(SHELVES, y + SHELF * own, STEP * PLACES + 2, SIDE + 2, EMPTY)
    for step, (event, rows) in enumerate(states()):
        counts = ", ".join(str(len(mine)) for mine in rows)
        told = say("{event}. Rows on ranks 0 to 3: {counts}.", event=event, counts=counts)
        made.says.append(told)
        made.text(6, 358, event, "start", since=step, until=step)
        for rank, mine in enumerate(rows):
            for place, row in enumerate(mine):
                x, y = _place(step, rank, place, mine)
                if step >= COMPUTED:
                    made.box(x, y, SIDE, SIDE, row[0], "", step, step)
                edge = 4 if step >= COMPUTED else 0
                inner = x + edge, y + edge, SIDE - 2 * edge, SIDE - 2 * edge
                made.box(*inner, PASSED + row[0], row[2], step, step)
    return made


def _top(rank):
    return 28 + 72 * rank


def _place(step, rank, place, mine):
    """Return where a piece is: at home, in the order of arrival, or on the shelf of its expert."""
    if step in (COMPUTED - 1, COMPUTED + 1):
        return SHELVES + 1 + STEP * place, _top(rank) + 19
    if step == COMPUTED:
        expert = mine[place][2]
        on_shelf = [row[2] for row in mine[:place]].count(expert)
        return SHELVES + 1 + STEP * on_shelf, _top(rank) + 1 + SHELF * (expert % EACH)
    return HOME + STEP * place, _top(rank) + 19
