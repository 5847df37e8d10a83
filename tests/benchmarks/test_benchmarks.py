"""The measuring itself: order, warm-up, ratios, peers that do what they stand for, the command."""

import json
import re
import struct
import types

import pytest
import torch
from support.samples.benchmark_data import example_rows, side

import benchmarks.__main__ as command
from benchmarks import cases, provenance
from benchmarks.cases import peers, worker
from benchmarks.cases.lenet import lenet_module
from benchmarks.measure import Row, Settings, Side, interleave, repeat, timed
from d2lmini import ddp, init_params, lenet


def recorder(calls, label, seconds):
    def run():
        calls.append(label)
        return next(seconds)

    return run


def test_variants_are_measured_in_turns_after_a_warm_up():
    calls = []
    variants = {
        "a": recorder(calls, "a", iter([100.0, 1.0, 2.0])),
        "b": recorder(calls, "b", iter([100.0, 10.0, 30.0])),
    }
    sides = interleave(variants, Settings(repetitions=2))
    assert calls == ["a", "b", "b", "a", "a", "b"]
    assert sides["a"].samples == (1.0, 2.0)
    assert sides["b"].samples == (10.0, 30.0)


def test_interleaving_keeps_a_slow_minute_from_deciding():
    """All of ours, then all of the peer's, would give 5 where both are equal."""
    speed = [1.0, 1.0, 1.0, 1.0, 5.0, 5.0, 5.0, 5.0, 5.0, 5.0]
    in_turns = Row("b", "c", "s", Side("ours", speed[::2]), Side("peer", speed[1::2]))
    one_by_one = Row("b", "c", "s", Side("ours", speed[:5]), Side("peer", speed[5:]))
    assert in_turns.ratio == 1
    assert one_by_one.ratio == 5


def test_ratio_above_one_is_faster_for_times_and_for_rates():
    fast, slow = side("fast", 1.0), side("slow", 2.0)
    assert Row("b", "c", "s", fast, slow).ratio == pytest.approx(2)
    assert Row("b", "c", "images/s", slow, fast).ratio == pytest.approx(2)
    assert Row("b", "c", "s", fast).ratio is None


def test_limits_are_kept_below_for_times_and_above_for_rates():
    assert Row("b", "c", "s", side("ours", 1.0), limit=2).keeps_limit
    assert not Row("b", "c", "s", side("ours", 3.0), limit=2).keeps_limit
    assert Row("b", "c", "B/s", side("ours", 3.0), limit=2).keeps_limit
    assert not Row("b", "c", "B/s", side("ours", 1.0), limit=2).keeps_limit


def test_rates_and_steps():
    assert Side("x", [0.5, 0.25]).rate(100) == Side("x", [200, 400])
    assert Side("x", [0.5, 0.25]).per_step(5) == Side("x", [0.1, 0.05])


def test_timed_calls_the_function_once_and_returns_seconds():
    calls = []
    assert timed(repeat(lambda: calls.append(1), 3), "cpu")() >= 0
    assert calls == [1, 1, 1]


def test_bad_rows_are_refused():
    with pytest.raises(ValueError, match="'ms' is not known; use one of s, "):
        Row("b", "c", "ms", side("ours", 1.0))
    with pytest.raises(ValueError, match="measure both in the same rounds"):
        Row("b", "c", "s", side("ours", 1.0), Side("peer", [1.0]))
    with pytest.raises(ValueError, match="needs a peer"):
        Row("b", "c", "s", side("ours", 1.0), goal=2)
    with pytest.raises(ValueError, match="no samples"):
        Side("ours", [])


def test_d2l_gets_our_images(tmp_path):
    peers.write_idx(tmp_path / "raw")
    train, _ = peers.quiet_data(256)
    content = (tmp_path / "raw" / "train-images-idx3-ubyte").read_bytes()
    assert struct.unpack(">IIII", content[:16]) == (0x803, len(train.labels), 28, 28)
    images = torch.frombuffer(bytearray(content[16:]), dtype=torch.uint8)
    assert torch.equal(images.view(-1, 1, 28, 28), train.images)
    labels = (tmp_path / "raw" / "train-labels-idx1-ubyte").read_bytes()
    assert list(labels[8:108]) == train.labels[:100].tolist()


def test_the_peers_lenet_is_ours():
    params, net = init_params(), lenet_module()
    with torch.no_grad():
        for target, p in zip(net.parameters(), params, strict=True):
            target.copy_(p.T if p.ndim == 2 else p)
    X = torch.rand(3, 1, 28, 28, generator=torch.Generator().manual_seed(0))
    assert torch.allclose(net(X), lenet(X, params), atol=1e-5)


@pytest.mark.exhaustive
@pytest.mark.process
def test_two_processes_take_turns():
    rows = worker.rows("allreduce", 2, Settings(repetitions=2, quick=True))
    labels = {"star", "ring", "star, one by one", "star, buckets", "ring, buckets"}
    assert {row.ours.label for row in rows} - {"gloo", "NCCL"} == labels
    assert all(len(row.ours.samples) == 2 and row.ours.low > 0 for row in rows)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "peer"), [("parallel", "DDP"), ("ddp", "1 process")])
def test_cases_of_several_processes_run_in_one(name, peer):
    with ddp.process_group("cpu") as this:
        processes = worker.Processes(this)
        rows = list(cases.load(name).shared_rows(processes, Settings(2, quick=True)))
        assert {row.peer.label for row in rows} == {peer}


def test_every_benchmark_has_its_module():
    for name in cases.BENCHMARKS:
        assert callable(cases.load(name).rows), name


@pytest.mark.process
def test_command_measures_and_prints(capsys):
    assert command.main(["--only", "machine", "--quick"]) == 0
    text = capsys.readouterr().out
    assert "matrix product" in text
    assert "too small for the numbers to mean anything" in text


def test_command_refuses_what_would_mislead(tmp_path, capsys):
    (tmp_path / "kept.json").write_text("{}", encoding="utf-8")
    for *arguments, words in (
        ("--repetitions", "0", "--repetitions is 0; give a positive integer"),
        ("--json", str(tmp_path / "kept.json"), "kept.json exists; name a file that does not"),
    ):
        with pytest.raises(SystemExit) as error:
            command.main(arguments)
        assert error.value.code == 2
        assert words in capsys.readouterr().err


@pytest.fixture
def run(monkeypatch):
    """Let the benchmarks find certain rows, the one about the book after that fail if asked."""

    def run(*arguments, fails=False):
        def rows(settings):
            yield from example_rows()
            if fails:
                raise OSError("out of luck")

        monkeypatch.setattr(command, "load", lambda name: types.SimpleNamespace(rows=rows))
        return command.main(arguments)

    return run


@pytest.mark.process
def test_tables_show_medians_ranges_goals_and_limits(run, capsys):
    assert run("--only", "lenet") == 0
    text = re.sub(" +", " ", capsys.readouterr().out)
    row = "| one epoch | 5 s (4.75 to 5.25) | d2l: 8 s (7.6 to 8.4) | 1.6 (1.6 to 1.6), goal 1.3 r"
    assert row in text
    assert "| 90 (90 to 90), goal 100 missed |" in text
    assert "| 20 µs (19 to 21) | limit 60 µs: kept | |" in text
    assert "| page intro.html | 123 kB |\n" in text
    assert "Note: why." in text
    assert f"torch {torch.__version__}; " in text


@pytest.mark.process
def test_all_samples_can_be_written_with_hardware_and_versions(run, tmp_path):
    path = tmp_path / "run.json"
    assert run("--only", "lenet", "--json", str(path)) == 0
    found = json.loads(path.read_text(encoding="utf-8"))
    assert [Row.from_dict(row) for row in found["rows"]] == list(example_rows())
    assert found["versions"]["torch"] == torch.__version__
    assert found["hardware"]["cores"] > 0
    assert found["quick"] is False


@pytest.mark.process
def test_a_failing_benchmark_keeps_the_others(run, capsys):
    assert run("--only", "book", fails=True) == 1
    printed = capsys.readouterr()
    assert "failed: book" in printed.out
    assert "out of luck" in printed.err


@pytest.mark.process
def test_provenance_says_what_the_system_says(monkeypatch, tmp_path):
    found = provenance.provenance()
    assert found["hardware"]["memory"] > 2**30
    assert found["versions"]["torch"] == torch.__version__
    monkeypatch.delattr("os.sysconf")  # as on Windows
    monkeypatch.setattr(provenance, "ROOT", tmp_path)  # no repository
    found = provenance.provenance()
    assert found["hardware"]["memory"] is None
    assert found["commit"] == "unknown"


def test_gpus_are_counted_by_name():
    gpus = [{"name": "NVIDIA V100", "memory": 1}] * 2
    hardware = {"gpus": gpus, "cpu": "Example CPU", "cores": 2, "threads": 1}
    found = {"hardware": hardware, "versions": {"torch": "2.13.0", "cuda": None}}
    found |= {"commit": 40 * "1", "modified": True, "date": "2026-01-31T12:34:56+00:00"}
    assert provenance.describe(found) == (
        "2 x NVIDIA V100, Example CPU, 2 cores, 1 thread\n"
        "torch 2.13.0; commit 1111111111 with changes; 2026-01-31 12:34 UTC"
    )
