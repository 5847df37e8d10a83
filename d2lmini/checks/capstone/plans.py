"""Checkers of plans: one that fits, a fast one, and the cheapest under a deadline."""

from d2lmini.checks.capstone.cases import CHOICES, ROOM, case_of
from d2lmini.checks.capstone.known import KNOWN
from d2lmini.checks.shared.results import describe
from d2lmini.checks.shared.solution import checker
from simgpu.units import number, percent, size

NEAR = 1.1  # times the cheapest price that is known: the clock knows no smaller differences
WHAT = {
    "waiting for others": "GPUs wait for each other: a pipeline needs more micro-batches or fewer "
    "stages",
    "communication": "bytes travel while nothing is computed: keep tensor parallelism in the node, "
    "make it smaller, or let each message carry the work of a larger micro-batch",
    "launches": "kernels are too small: take a larger micro-batch or a smaller degree of tensor "
    "parallelism",
    "memory bandwidth": "kernels wait for memory: larger products do more with each byte",
}


@checker("plan(case)")
def check_fits(plan, seed="example"):
    """Check a plan by which a model fits in memory.

    Parameters
    ----------
    plan : callable
        ``plan(case)``, called with the case of `case_of`, returning a dictionary of options of
        ``simgpu plan`` such as ``{"tp": 8, "shard": 1, "micro_batch": 2, "recompute": "full"}``.
    seed : str, default "example"
        Your name, as for `case_of`.

    Raises
    ------
    AssertionError
        If the plan cannot run or does not fit; the message says what takes the memory.
    """
    found, given = _simulated(plan, case_of(seed))
    _check_fits(found, given)
    print("plan: passed, it fits")


@checker("plan(case)")
def check_fast(plan, seed="example"):
    """Check a plan that fits and reaches the MFU of the case.

    Parameters
    ----------
    plan : callable
        ``plan(case)``, as for `check_fits`.
    seed : str, default "example"
        Your name, as for `case_of`.

    Raises
    ------
    AssertionError
        If the plan cannot run, does not fit, or is too slow; the message says where time goes.
    """
    case = case_of(seed)
    found, given = _simulated(plan, case)
    _check_fits(found, given)
    if found.mfu < case.job.mfu:
        raise AssertionError(
            f"the MFU is {percent(found.mfu)}, and {case.job.mfu:.0%} is possible. "
            f"{_explain_time(found, given)}"
        )
    print(f"plan: passed, its MFU is {percent(found.mfu)}")


@checker("plan(case)")
def check_cheapest(plan, seed="example"):
    """Check a plan that fits and meets the deadline at a price near the lowest that is known.

    Parameters
    ----------
    plan : callable
        ``plan(case)``, as for `check_fits`; the dictionary has an "offer" and a number of "gpus",
        too.
    seed : str, default "example"
        Your name, as for `case_of`.

    Raises
    ------
    AssertionError
        If the plan cannot run, does not fit, is late, or costs over 10 % more than a known one.
    """
    case = case_of(seed)
    found, given = _simulated(plan, case, CHOICES)
    _check_fits(found, given)
    if found.days > case.days:
        raise AssertionError(
            f"it takes {number(found.days)} days, and the deadline is {case.days:g} days: take "
            f"more or faster GPUs, or a plan with a higher MFU than {percent(found.mfu)}"
        )
    known = KNOWN[case.job.model].cheapest
    best = case.outcome(known)
    if found.dollars > NEAR * best.dollars:
        less, hint = 1 - best.dollars / found.dollars, _explain_price(given, found, known)
        raise AssertionError(
            f"it costs {number(found.dollars)} dollars, and a plan is known that costs "
            f"{percent(less)} less. {hint}"
        )
    print(f"plan: passed, {number(found.days)} days and {number(found.dollars)} dollars")


def _simulated(plan, case, needed=()):
    """Return what the reader's plan takes, and the plan."""
    given = plan(case)
    if not isinstance(given, dict):
        plan.fail(f"returned {describe(given)}; a dictionary of options is needed")
    if not given:
        plan.fail("returned an empty plan; say at least how the work is split, as by tp and shard")
    missing = [key for key in needed if key not in given]
    if missing:
        plan.fail(f"says nothing of {missing[0]!r}; give one")
    extra = [key for key in CHOICES if key in given and key not in needed]
    if extra:
        plan.fail(f"has {extra[0]!r}, but on this level the cluster is given; leave it out")
    try:
        return case.outcome(given), given
    except ValueError as error:
        raise AssertionError(f"this plan cannot run: {error}") from None


def _check_fits(found, given):
    report = found.report
    if not found.fits:
        raise AssertionError(
            f"it needs {size(report.peak_memory_bytes)} of a GPU's "
            f"{size(report.gpu_memory_bytes)}; at most {ROOM:.0%} are for tensors. "
            f"{_explain_memory(report, given)}"
        )


def _explain_memory(report, given):
    states = _states(report, given)
    text = f"Parameters, gradients and Adam's numbers take about {size(states)} of that"
    if states > 0.5 * report.peak_memory_bytes:
        return (
            f"{text}: split them further (shard 3, or a larger tp or pp; shard 1 splits Adam's "
            "numbers alone)"
        )
    return (
        f"{text}, and activations most of the rest: take a smaller micro_batch, recompute, or "
        "split the layers (tp)"
    )


def _states(report, given):
    """Return the bytes of a rank's parameters, gradients and Adam's numbers, about."""
    model = given.get("tp", 1) * given.get("pp", 1)
    stage, data = given.get("shard", 3 if model == 1 else 1), report.gpus // model
    each = {0: 18, 1: 6 + 12 / data, 2: 2 + 16 / data, 3: 16 / data}[stage]
    return each * report.parameters / model


def _explain_time(found, given):
    if given.get("recompute", "none") == "full":
        return (
            "What is recomputed costs time, and MFU does not count it: recompute less, and save "
            "memory in another way"
        )
    shares = found.report.time_shares
    cause = max((name for name in shares if name in WHAT), key=shares.get)
    return f"{percent(shares[cause])} of the time goes to {cause}: {WHAT[cause]}"


def _explain_price(given, found, known):
    if given["offer"] != known["offer"]:
        return (
            "Compare the offers: what a GPU costs an hour over what it computes in that hour (its "
            f"peak times the MFU on that network; yours is {percent(found.mfu)})"
        )
    if given["gpus"] > known["gpus"]:
        return (
            f"{given['gpus']} GPUs are more than the deadline needs, and each of them computes "
            f"less in an hour than fewer would (MFU {percent(found.mfu)})"
        )
    return f"The same GPUs can do more in an hour: your plan has an MFU of {percent(found.mfu)}"
