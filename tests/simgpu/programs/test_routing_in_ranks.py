"""Scripts with a router in runs that keep shapes only: uneven messages, stated loads."""

import json
import re

import pytest
import torch
import torch.distributed as dist
from support.paths import TESTS

import simgpu as sim
from simgpu.ranks.process.scheduler import RanksError
from simgpu.run.command import main

SCRIPT = TESTS / "support" / "programs" / "expert_parallel.py"
SMALL = 128  # numbers of a token, in runs with values
MACHINE = "--gpu", "a100", "--summary", "json"


@pytest.fixture
def launch(own_process, capsys):
    """Run the script; return what ranks said that they send and have, and the summary."""

    def run(*options, hidden=1024):
        capsys.readouterr()
        code = main(["--nproc-per-node", "4", *MACHINE, *options, str(SCRIPT), str(hidden)])
        out, err = capsys.readouterr()
        assert code == 0, err
        said = {int(r): (json.loads(a), json.loads(b)) for r, a, b in
                re.findall(r"rank (\d+): sends (\[.*?\]), has (\[.*?\])", out)}  # fmt: skip
        return said, json.loads(out.splitlines()[-1])

    return run


def test_a_balanced_router_takes_as_long_with_and_without_values(launch):
    real, with_values = launch(hidden=SMALL)
    balanced, shapes = launch("--shapes-only", hidden=SMALL)
    assert set(map(tuple, (counts for counts, _ in balanced.values()))) == {(1024,) * 8}
    assert all(own == [4096, 4096] for _, own in balanced.values())
    for counts, _ in (*real.values(), *balanced.values()):
        assert sum(counts) == 2 * 4096
    assert sum(sum(own) for _, own in real.values()) == 4 * 2 * 4096
    busiest = max(sum(own) for _, own in real.values()) / 8192  # of the untrained router
    assert 1 < busiest < 1.1
    step = shapes["step_time_seconds"]
    assert step == pytest.approx(with_values["step_time_seconds"], rel=busiest - 0.98)
    for rank, peak in shapes["peak_memory_bytes"].items():
        assert peak == pytest.approx(with_values["peak_memory_bytes"][rank], rel=busiest - 0.98)


def test_measured_shares_give_the_time_of_the_run_that_they_were_measured_in(launch):
    """The counts of one run with values, as shares of one without."""
    real, with_values = launch(hidden=SMALL)
    counts = [sum(sent[i] for sent, _ in real.values()) for i in range(8)]
    shares = ",".join(map(str, counts))
    stated, shapes = launch("--shapes-only", "--routing", shares, hidden=SMALL)
    for sent, _ in stated.values():
        assert all(abs(4 * n - whole) <= 4 for n, whole in zip(sent, counts, strict=True))
    assert shapes["step_time_seconds"] == pytest.approx(with_values["step_time_seconds"], rel=0.01)


def test_uneven_loads_take_longer_and_more_memory_on_the_busiest_rank(launch):
    _, even = launch("--shapes-only", "--routing", "balanced")
    stated, uneven = launch("--shapes-only", "--routing", "zipf:1")
    own = [sum(own) for _, own in stated.values()]
    assert own == sorted(own, reverse=True)
    assert own[0] > 1.8 * 8192
    assert uneven["step_time_seconds"] > 1.2 * even["step_time_seconds"]
    peaks = uneven["peak_memory_bytes"]
    assert peaks["0"] > 1.2 * peaks["3"]


def test_one_rank_runs_in_place_of_all_whose_loads_are_equal(launch):
    _, all_ranks = launch("--shapes-only")
    said, folded = launch("--shapes-only", "--ranks", "auto")
    assert said.keys() == {0}
    assert folded["step_time_seconds"] == pytest.approx(all_ranks["step_time_seconds"], rel=1e-6)


def test_the_summary_says_that_loads_are_assumed(own_process, capsys):
    words = ["--nproc-per-node", "2", "--gpu", "a100", "--shapes-only", "--routing", "zipf:1.2"]
    assert main([*words, str(SCRIPT), "1024"]) == 0
    note = "note: the indices of topk are those of --routing, not of scores: zipf:1.2"
    assert note in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--routing", "zipf:1"], "--routing zipf:1 needs --shapes-only: with values"),
        (["--routing", "even", "--shapes-only"], "routing 'even': give balanced, zipf:"),
    ],
)
def test_what_the_launcher_refuses(capsys, options, message):
    with pytest.raises(SystemExit):
        main([*options, str(SCRIPT)])
    assert message in capsys.readouterr().err


def choose(rank, by):
    dist.init_process_group()
    device = torch.accelerator.current_accelerator()
    x = torch.randn(64, 4, device=device)
    chosen = x.topk(1)[1] if by == "topk" else x.argsort(-1)[:, :1]
    send = torch.stack([(chosen // 2 == r).sum() for r in range(2)]).tolist()
    out = torch.empty(64, 4, device=device)
    dist.all_to_all_single(out, x, [32, 32], send)
    return send


def test_sizes_that_nothing_is_known_of_are_refused():
    assert sim.spawn(choose, ("topk",), 2, numerics=False) == [[32, 32]] * 2
    with pytest.raises(
        RanksError, match=r"split_sizes without values, as this run keeps shapes only.*topk"
    ):
        sim.spawn(choose, ("argsort",), 2, numerics=False)


def test_shares_of_another_number_of_experts_are_refused():
    with pytest.raises(ValueError, match="gives 3 shares, and the program chose among 4 experts"):
        sim.spawn(choose, ("topk",), 2, numerics=False, routing=[1, 1, 2])
