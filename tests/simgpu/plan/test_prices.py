"""A file of prices, and what plans and whole runs cost by it."""

import json

import pytest
from support.programs.plan_command import plan as printed

import simgpu
from simgpu.plan.prices import FORMAT, Cost, Money, Prices, read
from simgpu.plan.request import make_request
from simgpu.plan.step.job import PlanError
from simgpu.search import cheapest
from simgpu.search.cheapest import DEAR, LATE, Cheapest

GOOD = {
    "format": FORMAT, "date": "2026-01-31", "source": "made up",
    "dollars_per_gpu_hour": {"a100": 1, "h100": 2},
}  # fmt: skip
DAY = 86400


@pytest.fixture
def file(tmp_path):
    """Return a function that writes a file of prices with some keys changed, and its path."""

    def write(**changes):
        path = tmp_path / "prices.json"
        kept = {key: value for key, value in (GOOD | changes).items() if value is not None}
        path.write_text(json.dumps(kept), encoding="utf-8")
        return str(path)

    return write


def test_a_step_and_a_run_cost_hours_times_gpus_times_the_price():
    cost = Cost(8, 2.0, Prices("2026-01-31", "made up", {}), 1.8, 1e6, tokens=4e9, deadline=DAY)
    assert cost.dollars_of(1e6) == pytest.approx(8 * 2 * 1.8 / 3600)
    assert cost.run_seconds == pytest.approx(7200)
    assert cost.dollars_of(cost.tokens) == pytest.approx(2 * 8 * 2)
    assert cost.in_time
    found = cost.to_dict()
    assert found["dollars_per_billion"] == pytest.approx(8)
    assert (found["run_dollars"], found["run_seconds"]) == (pytest.approx(32), pytest.approx(7200))


def test_the_report_names_prices_date_and_source(file, capsys):
    options = "--gpus", 8, "--gpu", "h100", "--micro-batch", 4
    money = "--prices", file(), "--tokens", "600B", "--within", "1d"
    code, text = printed(capsys, "gpt2-124m", *options, *money)
    assert code == 0
    report = simgpu.plan("gpt2-124m", gpus=8, gpu="h100", micro_batch=4)
    hours = 600e9 / report.rate / 3600
    for words in ("a billion tokens", "$2 a GPU and hour: made up, 2026-01-31", "whole run",
                  f"{hours / 24:.3g} days", "600 billion tokens, $", "TOO LATE by"):  # fmt: skip
        assert words in text, words
    found = json.loads(printed(capsys, "gpt2-124m", *options, *money, "--json")[1])["cost"]
    assert found["run_dollars"] == pytest.approx(hours * 8 * 2)
    assert found["ends_in_time"] is False
    assert found["prices_source"] == "made up"


def test_without_prices_a_run_has_a_length_and_nothing_is_asked_by_default(capsys):
    _, text = printed(capsys, "gpt2-124m", "--tokens", "1B")
    assert "whole run" in text
    assert "$" not in text
    assert simgpu.plan("gpt2-124m").cost is None


@pytest.mark.long
def test_a_search_says_what_each_plan_costs(file, capsys):
    options = "--gpus", 4, "--batch", 32, "--search", "--tp", 1, "--pp", 1, "--top", 2
    money = "--prices", file(), "--tokens", "100B", "--within", "1h"
    _, text = printed(capsys, "gpt2-124m", *options, *money)
    assert "$ a billion  whole run" in text
    assert "prices of 2026-01-31: made up" in text
    assert "hours, too late" in text or "days, too late" in text
    rows = json.loads(printed(capsys, "gpt2-124m", *options, *money, "--json")[1])["plans"]
    for row in rows:
        dollars = 1e9 / row["tokens_per_second_per_gpu"] / 3600  # of a GPU for a dollar an hour
        assert row["cost"]["dollars_per_billion"] == pytest.approx(dollars)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"format": "simgpu prices 2"}, "format is 'simgpu prices 2'; this version reads"),
        ({"date": "January"}, "date is 'January'; write it like 2026-01-31"),
        ({"date": None}, "the keys are format, source, dollars_per_gpu_hour; give format, date"),
        ({"source": " "}, "source is ' '; say where the prices stand"),
        ({"dollars_per_gpu_hour": {}}, "give a price for each GPU's name"),
        ({"dollars_per_gpu_hour": {"a100": 0}}, "price of a100 is 0; give dollars for an hour"),
        ({"dollars_per_gpu_hour": {"a100": "2"}}, "price of a100 is '2'"),
        ({"currency": "euro"}, "the keys are .*currency; give format"),
    ],
)
def test_a_bad_file_is_refused_by_its_key(file, changes, why):
    with pytest.raises(PlanError, match=rf"--prices .*prices\.json: .*{why}.*help\("):
        read(file(**changes))


def test_no_file_and_no_json_are_refused(tmp_path):
    with pytest.raises(PlanError, match="No such file"):
        read(tmp_path / "none.json")
    (tmp_path / "bad.json").write_text("{", encoding="utf-8")
    with pytest.raises(PlanError, match="is not JSON"):
        read(tmp_path / "bad.json")


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"within": "3d"}, "--within 3d needs --tokens"),
        ({"tokens": "many"}, "--tokens: 'many' is no number; write it like 15T"),
        ({"tokens": "0B"}, "--tokens: '0B' is no number"),
        ({"tokens": "1T", "within": "Friday"}, "--within: 'Friday' is no time; write it like 12h"),
    ],
)
def test_other_words_are_refused(options, why):
    with pytest.raises(PlanError, match=why):
        Money(**options)


def test_a_gpu_without_a_price_is_refused_before_anything_is_simulated(file, monkeypatch):
    monkeypatch.setattr("simgpu.plan.report.simulate", None)
    with pytest.raises(PlanError, match="no price of 'l4'; the file has a100, h100: add it"):
        simgpu.plan("gpt2-124m", gpu="l4", prices=file())


# The cheapest run that ends in time


def look(file, within, seconds, gpus=("a100", "h100"), most=64, tokens="1T"):
    """Look with steps of given seconds on 8 GPUs; return the offers, the best and the searches."""
    searched = []
    money = {"prices": file(), "tokens": tokens, "within": within}

    def request_of(gpu, count):
        return make_request("llama3-8b", gpu=gpu, gpus=count or 8, global_batch=64, **money)

    def search(request):
        searched.append((request.cluster.gpu.name, request.gpus))
        step = type("Step", (), {"seconds": seconds[request.cluster.gpu.name] * 8 / request.gpus})
        job = type("Job", (), {"sequences": 64, "model": request.model})
        return type("Tried", (), {"plan": "a plan", "job": job, "step": step})

    found = Cheapest(request_of, search, Money(**money), list(gpus), most)
    return list(found.offers()), found.best, searched


def test_boards_are_doubled_until_a_run_ends_in_time(file):
    """The steps take twice what the peak allows: 280 days on eight H100s."""
    offers, best, searched = look(file, "100d", {"a100": 40.0, "h100": 12.7})
    assert (best.gpu, best.gpus) == ("h100", 32)
    assert [(o.gpu, o.gpus) for o in offers if o.gpu == "h100"] == [
        ("h100", 8), ("h100", 16), ("h100", 32),
    ]  # fmt: skip
    assert best.cost.in_time
    assert best.price == pytest.approx(best.cost.run_seconds / 3600 * 32 * 2)
    late = [offer for offer in offers if offer.reason.startswith(LATE)]
    assert not {(offer.gpu, offer.gpus) for offer in late} & set(searched)


def test_what_is_dearer_even_at_the_peak_is_not_simulated(file):
    """An A100 has a third of an H100's peak for half of its price."""
    offers, best, searched = look(file, "300d", {"a100": 20.0, "h100": 4.5})
    assert best.gpu == "h100"
    assert [offer.reason for offer in offers if offer.gpu == "a100"][-1] == DEAR
    assert all(gpu == "h100" for gpu, _ in searched)


def test_none_may_end_in_time(file):
    offers, best, searched = look(file, "1d", {"a100": 40.0, "h100": 12.7})
    assert (best, searched) == (None, [])
    assert all(offer.reason.startswith(LATE) for offer in offers)
    assert "allow more GPUs" in cheapest.verdict(best)


@pytest.mark.long
def test_the_command_finds_the_cheapest_run(file, capsys):
    options = "--prices", file(), "--tokens", "10B", "--within", "6h", "--batch", 64
    plan = "--tp", 1, "--pp", 1, "--micro-batch", 8, "--recompute", "none", "--gpus", 8
    code, text = printed(capsys, "gpt2-124m", "--cheapest", *options, *plan)
    assert code == 0
    assert "10 billion tokens within 6 hours" in text
    assert "the cheapest that ends in time: 8 x " in text
    assert "the whole run and its price are as sure" in text
    found = printed(capsys, "gpt2-124m", "--cheapest", *options, *plan, "--json")[1]
    found = json.loads(found)
    assert found["best"]["cost"]["ends_in_time"]
    cost = [o["cost"]["run_dollars"] for o in found["offers"] if o["cost"]]
    assert found["best"]["cost"]["run_dollars"] == min(cost)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ((), "--cheapest needs --prices, --tokens, --within, --global-batch"),
        (("--tokens", "1B", "--within", "1d", "--batch", 8), "--cheapest needs --prices: all runs"),
    ],
)
def test_runs_that_cannot_be_compared_are_refused(options, why, capsys):
    code, text = printed(capsys, "gpt2-124m", "--cheapest", *options)
    assert code == 2
    assert why in text
