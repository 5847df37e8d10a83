"""Count the collective calls of ranks, to find a rank that has skipped one long before."""

from collections import Counter, defaultdict

from simgpu.ranks.process.describe_ranks import subject


class CallCounts:
    """How often each rank has called a collective at a line of the program, by group.

    A rank that skips a step makes later calls too early. They match those of other ranks until the
    calls differ, perhaps at the end of an epoch; then the counts show which call it has skipped.
    """

    def __init__(self):
        self._counts = defaultdict(Counter)  # members of the group, line -> rank -> calls

    def add(self, members, line, rank) -> None:
        """Count a call."""
        self._counts[members, line][rank] += 1

    def of_rank(self, rank) -> Counter:
        """Return how often a rank has made calls: by the members of the group, and the line."""
        return Counter({call: counts[rank] for call, counts in self._counts.items()})

    def compare(self, members, line, ranks) -> str:
        """Describe how often ranks have made a call if all have made it, but not equally often.

        Examples
        --------
        >>> counts = CallCounts()
        >>> for rank in (0, 1, 0):
        ...     counts.add((0, 1), "train.py:9", rank)
        >>> counts.compare((0, 1), "train.py:9", (0, 1))
        'rank 0 has made the call at train.py:9 2 times, rank 1 once'
        """
        counts = self._counts[members, line]
        by_count = {}
        for rank in ranks:
            by_count.setdefault(counts[rank], []).append(rank)
        if len(by_count) < 2 or 0 in by_count:
            return ""
        (number, first), *others = by_count.items()
        have = "have" if len(first) > 1 else "has"
        text = f"{subject(first)} {have} made the call at {line} {_times(number)}"
        return ", ".join([text, *(f"{subject(found)} {_times(n)}" for n, found in others)])


def _times(number):
    return "once" if number == 1 else f"{number} times"
