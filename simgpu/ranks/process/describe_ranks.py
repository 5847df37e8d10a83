"""Describe many ranks in few lines: those that do the same share one."""

MAX_SINGLE = 3  # ranks with the same status that have a line each; more share one
_PLURALS = {"waits": "wait", "has": "have", "is": "are"}


def ranges(numbers) -> str:
    """Write increasing numbers in short.

    Examples
    --------
    >>> ranges([0, 1, 2, 5]), ranges([3]), ranges([3, 4])
    ('0-2, 5', '3', '3, 4')
    """
    runs = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(_run(first, last) for first, last in runs)


def _run(first, last):
    if last - first < 2:
        return ", ".join(map(str, range(first, last + 1)))
    return f"{first}-{last}"


def subject(numbers) -> str:
    """Name ranks: ``rank 3``, ``ranks 0-2``."""
    return f"rank{'s' if len(numbers) > 1 else ''} {ranges(numbers)}"


def lines(statuses) -> list[str]:
    """Describe what ranks do; more than `MAX_SINGLE` with the same status share a line.

    Parameters
    ----------
    statuses : dict
        Rank -> what it does, such as ``"waits in barrier"``, in the order of the ranks.

    Examples
    --------
    >>> lines({0: "is ready", 1: "has ended", 2: "has ended", 3: "has ended", 4: "has ended"})
    ['rank 0 is ready', 'ranks 1-4 have ended']
    """
    by_status = {}
    for number, status in statuses.items():
        by_status.setdefault(status, []).append(number)
    found = []
    for number, status in statuses.items():
        numbers = by_status[status]
        if len(numbers) <= MAX_SINGLE:
            found.append(f"rank {number} {status}")
        elif number == numbers[0]:
            verb, _, rest = status.partition(" ")
            found.append(f"{subject(numbers)} {_PLURALS.get(verb, verb)} {rest}")
    return found
