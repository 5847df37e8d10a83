"""Which experts tokens go to on machines that keep shapes only: a stated distribution.

A router computes scores, which have no values there. But what it makes of them, the indices of
`topk`, decides how many tokens each expert gets, and so sizes of messages and of products. So these
indices are made up: each expert gets its share of the tokens, and no token an expert twice. What
follows from them in integers (`bincount`, `one_hot`, `argsort`, ``tolist()``) is computed for real.
"""

import math
from functools import lru_cache

import torch

MOST_EXPERTS = 4096  # a choice among more, such as words, is not routing


class Routing:
    """A distribution of tokens over experts.

    Parameters
    ----------
    stated : str or list of float, optional
        ``"balanced"`` (also None): all experts get as many tokens. ``"zipf:1.2"``: expert i gets a
        share in proportion to 1 / (i + 1)**1.2, so the first has most. Numbers, also as a text with
        commas: the share of each expert.

    Attributes
    ----------
    given : bool
        Whether it was stated.
    used : set of int
        Among how many experts tokens have been routed.

    Raises
    ------
    ValueError
        If it is anything else.

    Examples
    --------
    >>> Routing("zipf:1").counts(6, 1, 3)
    [3, 2, 1]
    """

    def __init__(self, stated=None):
        self.given = stated is not None
        self.power, self.shares, self.used = 0.0, None, set()
        if isinstance(stated, str):
            self._read(stated)
        elif stated is not None:
            self._take(stated, stated)

    def _read(self, text):
        kind, _, power = text.partition(":")
        if text == "balanced":
            return
        if kind == "zipf":
            self.power = _number(power)
            if self.power is None or not 0 <= self.power <= 10:
                raise ValueError(f"routing {text!r}: give an exponent from 0 to 10, as in zipf:1.2")
        else:
            self._take([_number(part) for part in text.split(",")], text)

    def _take(self, shares, stated):
        shares = tuple(shares) if hasattr(shares, "__iter__") else ()
        numbers = all(
            isinstance(s, int | float) and not isinstance(s, bool) and 0 <= s < math.inf
            for s in shares
        )
        if not numbers or len(shares) < 2 or not any(shares):
            raise ValueError(
                f"routing {stated!r}: give balanced, zipf: and an exponent (zipf:1.2), or the "
                "share of each expert, numbers of at least 0 (0.5,0.25,0.25)"
            )
        self.shares = tuple(map(float, shares))

    def __str__(self):
        if self.shares:
            return f"{len(self.shares)} shares"
        return f"zipf:{self.power:g}" if self.power else "balanced"

    def covers(self, experts) -> bool:
        """Whether a choice among this number of experts is taken for routing."""
        return 1 < experts <= MOST_EXPERTS

    def counts(self, tokens, each, experts) -> list[int]:
        """Return how many of some tokens, which go to `each` experts, go to each expert.

        They add up to ``tokens * each``; no expert gets a token twice.
        """
        return list(_counts(self._weights(experts), tokens, each))

    def _weights(self, experts):
        if self.shares and len(self.shares) == experts:
            return self.shares
        return tuple((i + 1) ** -self.power for i in range(experts))

    def choose(self, tokens, each, experts) -> torch.Tensor:
        """Return the experts of each token, a row of `each` different ones.

        An expert's tokens are spread over all rows.
        """
        self.used.add(experts)
        return _choose(self._weights(experts), tokens, each).clone()

    def check_used(self) -> None:
        """Raise `ValueError` if tokens went to another number of experts than have shares."""
        if self.shares and self.used and len(self.shares) not in self.used:
            found = ", ".join(map(str, sorted(self.used)))
            raise ValueError(
                f"routing gives {len(self.shares)} shares, and the program chose among {found} "
                "experts; give as many shares"
            )


def _number(text):
    try:
        return float(text)
    except ValueError:
        return None


@lru_cache(maxsize=256)
def _counts(weights, tokens, each):
    positive = sum(w > 0 for w in weights)
    if positive < each:
        raise ValueError(
            f"routing gives a share to {positive} of {len(weights)} experts, and a token goes to "
            f"{each} different ones; give a share to {each} or more"
        )
    exact, full = [0.0] * len(weights), set()
    while True:  # what an expert cannot take, since it gets a token once at most, others get
        left = tokens * (each - len(full))
        free = {i: w for i, w in enumerate(weights) if w > 0 and i not in full}
        total = math.fsum(free.values())
        over = {i for i, w in free.items() if left * w >= tokens * total}
        if not over:
            break
        full |= over
    for i in range(len(weights)):
        exact[i] = tokens if i in full else left * free[i] / total if i in free else 0
    found = [math.floor(number) for number in exact]
    rest = sorted(range(len(weights)), key=lambda i: (found[i] - exact[i], i))
    for i in rest[: tokens * each - sum(found)]:
        found[i] += 1
    return tuple(found)


@lru_cache(maxsize=8)  # each may be as large as the scores
def _choose(weights, tokens, each):
    counts = torch.tensor(_counts(weights, tokens, each))
    experts = torch.repeat_interleave(torch.arange(len(weights)), counts)
    # One expert's places follow each other in steps that reach every row before one again.
    step = next(s for s in range(round(0.618 * tokens) or 1, 2 * tokens + 2)
                if math.gcd(s, tokens) == 1)  # fmt: skip
    place = torch.arange(tokens * each)
    row = place * step % tokens
    chosen = torch.empty(tokens, each, dtype=torch.int64)
    chosen[row, (place // tokens + row) % each] = experts
    return chosen
