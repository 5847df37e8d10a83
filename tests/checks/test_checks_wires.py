"""The checkers of the page on wires accept right solutions and name what is wrong."""

from support.samples.solutions import make_tests, returns_nothing

from d2lmini.checks import wires as checks

RIGHT, WRONG = {}, {}


def seconds_of(collective, n, nbytes, busbw):
    rounds = {"all_reduce": 2 * (n - 1) / n, "broadcast": 1.0}
    return rounds.get(collective, (n - 1) / n) * nbytes / (busbw * 1e9)


RIGHT["seconds_of"] = seconds_of
WRONG["seconds_of"] = {
    "takes busbw for algbw": lambda c, n, nbytes, busbw: nbytes / busbw / 1e9,
    "multiply by the factor": lambda c, n, nbytes, busbw: (
        nbytes**2 / (busbw * 1e9) ** 2 / seconds_of(c, n, nbytes, busbw)
    ),
    r"a GiB 2\*\*30": lambda c, n, nbytes, busbw: seconds_of(c, n, nbytes, busbw) * 1e9 / 2**30,
    r"multiply it by 10\*\*9": lambda *given: 1e9 * seconds_of(*given),
    "in milliseconds": lambda *given: 1e3 * seconds_of(*given),
    "in microseconds": lambda *given: 1e6 * seconds_of(*given),
    "which goes round twice": lambda c, n, nbytes, busbw: seconds_of(
        "all_reduce", n, nbytes, busbw
    ),
    "of an all-gather or a reduce-scatter": lambda c, n, nbytes, busbw: (
        (n - 1) / n * nbytes / busbw / 1e9
    ),
    "depends on the collective": lambda *given: 1.0,
    "must be a number": returns_nothing,
}


def share_of_wire(algorithm, n, busbw, sold, both):
    carried = busbw if algorithm == "ring" else busbw * n / (2 * (n - 1))
    return carried / (sold / 2 if both else sold)


def confusing(duplex=True, halve=False, undo=False, scale=1):
    """Return a solution that makes some of the usual mistakes."""

    def share(algorithm, n, busbw, sold, both):
        if undo:
            algorithm = "ring" if algorithm != "ring" else "tree"
        return scale * share_of_wire(algorithm, n, busbw, sold, (both and duplex) or halve)

    return share


RIGHT["share_of_wire"] = share_of_wire
WRONG["share_of_wire"] = {
    "adds up both directions": confusing(duplex=False),
    "do not halve it": confusing(halve=True),
    "do not undo the factor for a ring$": confusing(undo=True),
    "for a ring; that rate adds up both": confusing(duplex=False, undo=True),
    "so its wires carry algbw$": lambda _, *given: share_of_wire("ring", *given),
    "algbw; that rate adds up both": lambda algorithm, n, busbw, sold, both: (
        busbw / sold if algorithm != "ring" else share_of_wire(algorithm, n, busbw, sold, both)
    ),
    "in per cent": confusing(scale=100),
    "the rate of one direction": lambda *given: 1.0,
    "must be a number": returns_nothing,
}


test_right_solutions_pass, test_wrong_solutions_are_named = make_tests(checks, RIGHT, WRONG)
