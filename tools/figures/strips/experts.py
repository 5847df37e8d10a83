"""Tokens go to their experts and come home: what the rows of each rank are, step by step."""

from __future__ import annotations

from tools.figures.strips.film import PASSED, Film
from tools.words import say

RANKS, TOKENS, EACH = 4, 4, 2  # ranks; tokens of a rank; experts of a rank
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
    """Return the film of the layer."""
    made = Film(258)
    made.text(6, 14, say("experts"), "start")
    made.text(118, 14, say("rows; colour: home, number: expert"), "start")
    for rank in range(RANKS):
        y = 52 + 46 * rank
        made.text(6, y - 8, say("rank {n}", n=rank), "start")
        made.text(6, y + 10, say("has {a}, {b}", a=EACH * rank, b=EACH * rank + 1), "start")
    for step, (event, rows) in enumerate(states()):
        counts = ", ".join(str(len(mine)) for mine in rows)
        told = say("{event}. Rows on ranks 0 to 3: {counts}.", event=event, counts=counts)
        made.says.append(told)
        made.text(6, 234, event, "start", since=step, until=step)
        for rank, mine in enumerate(rows):
            for place, (home, _, expert) in enumerate(mine):
                made.box(90 + 40 * place, 34 + 46 * rank, 34, 34, PASSED + home, expert, step, step)
    return made
