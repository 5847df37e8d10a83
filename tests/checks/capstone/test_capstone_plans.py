"""The checkers of the capstone: every job can be solved, typical wrong answers are explained."""

import itertools
import re

import pytest

from d2lmini.checks import capstone as checks
from d2lmini.checks.capstone.cases import COUNTS
from d2lmini.checks.capstone.jobs import JOBS
from d2lmini.checks.capstone.known import KNOWN
from d2lmini.checks.capstone.plans import NEAR

NAMES = [f"reader {i}" for i in range(60)]
SEEDS = {job.model: next(n for n in NAMES if checks.case_of(n).job.model == job.model)
         for job in JOBS}  # fmt: skip


def returning(plan):
    return lambda case: dict(plan)


def refused(check, plan, seed):
    """Return what a checker says of a plan."""
    with pytest.raises(AssertionError) as caught:
        check(returning(plan), seed)
    return str(caught.value)


def test_a_name_always_gives_the_same_job_and_others_give_others():
    cases = [checks.case_of(name) for name in NAMES]
    assert cases == [checks.case_of(name) for name in NAMES]
    assert {case.job.model for case in cases} == {job.model for job in JOBS} == set(KNOWN)
    assert len({(case.job.model, case.days, case.tokens) for case in cases}) > 20
    assert str(checks.case_of("example")).count("\n") == 7


def test_the_prices_of_a_job_keep_their_ratio():
    """Else another offer might be the cheapest."""
    for name in NAMES:
        job = checks.case_of(name).job
        (plain,) = (other for other in JOBS if other.model == job.model)
        ratios = [offer.price / plain.offers[key].price for key, offer in job.offers.items()]
        assert max(ratios) < 1.02 * min(ratios)


@pytest.mark.parametrize("seed", ["", " ", None, 7])
def test_a_seed_is_a_name(seed):
    with pytest.raises(ValueError, match="give your name, a text"):
        checks.case_of(seed)


def first_in_short(cases):
    """Return the cases, all but the first of which only `make test-all` tries."""
    first, *others = cases
    return [first, *(pytest.param(case, marks=pytest.mark.exhaustive) for case in others)]


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("model", first_in_short(KNOWN))
def test_every_job_can_be_solved_and_the_careless_way_fails(model, capsys):
    seed, known = SEEDS[model], KNOWN[model]
    checks.check_fits(returning(known.fits), seed)
    checks.check_fast(returning(known.fast), seed)
    checks.check_cheapest(returning(known.cheapest), seed)
    assert capsys.readouterr().out.count("passed") == 3
    assert "DOES NOT FIT" in str(checks.case_of(seed).outcome({"shard": 0}))
    assert "split them further" in refused(checks.check_fits, {"shard": 0}, seed)
    assert "% is possible" in refused(checks.check_fast, known.fits, seed)
    careless = known.cheapest | known.fits
    said = refused(checks.check_cheapest, careless, seed)
    assert "the deadline is" in said or "a plan is known that costs" in said
    said = refused(checks.check_cheapest, known.cheapest | {"gpus": 8}, seed)
    assert "the deadline is" in said or "it needs" in said


WAYS = tuple(itertools.product(((1, 3), (1, 1), (2, 1), (4, 1), (8, 1)), (1, 2, 4, 8)))


def fitting(case, cluster):
    """Yield what plans take that fit on a cluster, each with as little recomputed as possible."""
    for (tp, shard), micro_batch in WAYS:
        plan = {"tp": tp, "shard": shard, "micro_batch": micro_batch} | cluster
        for recompute in ("none", "selective", "full"):
            try:
                outcome = case.outcome(plan | {"recompute": recompute})
            except ValueError:
                break
            if outcome.fits:
                yield outcome
                break


@pytest.mark.exhaustive
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("model", KNOWN)
def test_no_plan_of_many_is_cheaper_by_more_than_the_checker_allows(model):
    case, dollars = checks.case_of(SEEDS[model]), []
    for offer in case.job.offers:
        for gpus in COUNTS[1:]:  # more than those that are in time have less to do each
            found = fitting(case, {"offer": offer, "gpus": gpus})
            in_time = [outcome.dollars for outcome in found if outcome.days <= case.days]
            dollars += in_time
            if in_time:
                break
    assert min(dollars) > case.outcome(KNOWN[model].cheapest).dollars / NEAR


@pytest.mark.long
@pytest.mark.sample(3)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("check", "plan", "message"),
    [
        ("fits", {"shard": 1, "tp": 1}, "split them further"),
        ("fits", {"tp": 2, "micro_batch": 8}, "take a smaller micro_batch, recompute, or"),
        ("fits", {"tp": 3}, "--tp 3"),
        ("fits", {"zero": 3}, "a plan has no 'zero'; it has tp, pp"),
        ("fits", {"micro_batch": 3}, "--global-batch 128 is no multiple of 48"),
        ("fits", {"offer": "B"}, "on this level the cluster is given"),
        ("fits", {"tp": 2, "recompute": True}, "recompute"),
        ("fast", {"shard": 3}, "goes to communication: bytes travel while"),
        ("fast", {"shard": 3, "micro_batch": 4, "recompute": "full"}, "recompute less"),
        ("cheapest", {"tp": 8}, "says nothing of 'offer'"),
        ("cheapest", {"tp": 8, "offer": "D", "gpus": 16}, "there is no offer 'D'; take A, B, C"),
        ("cheapest", {"tp": 8, "offer": "B", "gpus": 24}, "one can rent 8, 16, 32, 64"),
        ("cheapest", {"shard": 3, "offer": "B", "gpus": 8}, "and the deadline is"),
        ("cheapest", {"tp": 8, "offer": "B", "gpus": 64}, "are more than the deadline needs"),
        (
            "cheapest",
            {"tp": 2, "micro_batch": 4, "recompute": "full", "offer": "A", "gpus": 64},
            "Compare the offers",
        ),
    ],
)
def test_what_is_said_of_wrong_plans_for_the_example(check, plan, message):
    assert message in refused(getattr(checks, f"check_{check}"), plan, "example")


@pytest.mark.long
def test_plans_that_differ_little_pass(capsys):
    """The clock cannot tell them apart, and no plan has to be the one that is known."""
    checks.check_fast(returning({"tp": 2, "shard": 1, "micro_batch": 4, "recompute": "full"}))
    plan = {"tp": 2, "shard": 1, "micro_batch": 2, "offer": "B", "gpus": 16}
    checks.check_cheapest(returning(plan))
    assert capsys.readouterr().out.count("passed") == 2


def test_the_command_of_a_case_is_the_simulation(capsys):
    from simgpu.__main__ import main

    case = checks.case_of("example")
    plan = {"tp": 8, "shard": 1}
    words = case.command(plan).replace("\\\n", "").split()
    assert words[:3] == ["python", "-m", "simgpu"]
    assert main(words[3:]) == 0
    mfu = re.search(r"MFU +([\d.]+) %", capsys.readouterr().out)[1]
    assert mfu == f"{100 * case.outcome(plan).mfu:.1f}"
