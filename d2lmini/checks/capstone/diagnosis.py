"""The checker of what is wrong with which rank."""

from d2lmini.checks.capstone.faults import KINDS, RANKS, ROUNDS, Fault, draw_faults, run_with
from d2lmini.checks.shared.results import describe, whole_number
from d2lmini.checks.shared.solution import checker

NAMES = "ABCDE"
WHERE = {
    "slow GPU": "compare how long kernels of the same name take on each rank",
    "slow card": "compare how long the rounds near and far take on each rank, and find what the "
    "slow pairs have in common",
    "skipped sum": "list the rounds of each rank in their order: node, near, far, and again",
    "wrong scale": "the times are those of the healthy run; compare the norms that ranks wrote",
}


def healthy_run():
    """Return the job without a fault, to compare with.

    Returns
    -------
    Run
    """
    return run_with(Fault())


def faulty_runs(seed):
    """Return five jobs of eight ranks, "A" to "E", each with one fault.

    Parameters
    ----------
    seed : str
        Your name: it decides which fault is where.

    Returns
    -------
    list of Run
    """
    return [run_with(fault, name) for name, fault in zip(NAMES, draw_faults(seed), strict=True)]


@checker("diagnose(run)")
def check_diagnose(diagnose, seed="example"):
    """Check what is wrong in the five jobs of `faulty_runs`.

    Parameters
    ----------
    diagnose : callable
        ``diagnose(run)``, called with each `Run`, returning the rank that has the fault and the
        fault: "slow GPU", "slow card", "skipped sum" or "wrong scale".
    seed : str, default "example"
        As for `faulty_runs`.

    Raises
    ------
    AssertionError
        If a rank or a fault is wrong; the message says where to look.
    """
    for name, fault in zip(NAMES, draw_faults(seed), strict=True):
        run, where = run_with(fault, name), f"run {name}"
        given = diagnose.at(where)
        rank, kind = given.items(given(run), 2)
        rank = whole_number(rank, f"{where}: the rank")
        assert 0 <= rank < RANKS, f"{where}: there is no rank {rank}; give one from 0 to 7"
        assert isinstance(kind, str), f"{where}: the fault must be a name, not {describe(kind)}"
        assert kind in KINDS, f"{where}: {kind!r} is none of the faults {', '.join(KINDS)}"
        if kind != fault.kind:
            raise AssertionError(f"{where}: it is no {kind}. {_what_is_seen(kind, run)}")
        if rank != fault.rank:
            hint = _whose(rank, fault) or f"To find it, {WHERE[kind]}"
            raise AssertionError(f"{where}: it is a {kind}, but not of rank {rank}. {hint}")
    print("diagnose: passed")


def _what_is_seen(kind, run):
    """Return why a fault is not that of a run."""
    if kind == "skipped sum":
        return "A rank that skips a sum leaves its partner waiting, and this job came to its end"
    if not run.ended:
        return "This job hung, and slow parts or wrong numbers stop no job"
    norms = {"wrong scale": "All ranks wrote norms of the same size"}
    times = {
        "slow GPU": "Kernels of the same name take the same time on all ranks",
        "slow card": "The rounds near and far take as long on all ranks",
    }
    return (norms | times)[kind]


def _whose(rank, fault):
    """Return a hint if the named rank only suffers from the fault."""
    if fault.kind not in ("slow card", "skipped sum"):
        return ""
    name = next((name for name, bit in ROUNDS.items() if rank == fault.rank ^ bit), None)
    if name is None:
        return ""
    if fault.kind == "slow card":
        return (
            f"Its round {name} is slow, and another one is not: a card is slow in both, so it is "
            "the partner's"
        )
    return "It waits for its partner: which of the two has left out a round?"
