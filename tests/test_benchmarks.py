"""The measuring itself: order, warm-up, ratios, peers that do what they stand for, the command."""

import json
import struct
import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from benchmark_data import example_record, example_rows, side  # noqa: E402

import benchmarks.__main__ as command  # noqa: E402
from benchmarks import peers, provenance, records  # noqa: E402
from benchmarks.bench_lenet import lenet_module  # noqa: E402
from benchmarks.group import processes  # noqa: E402
from benchmarks.measure import Row, Settings, Side, as_rate, interleave, per_step, timed  # noqa: E402
from d2lmini import init_params, lenet  # noqa: E402


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


def test_ratio_above_one_is_better_for_times_and_for_rates():
    fast, slow = side("fast", 1.0), side("slow", 2.0)
    assert Row("b", "c", "s", fast, slow).ratio == pytest.approx(2)
    assert Row("b", "c", "images/s", slow, fast, higher_is_better=True).ratio == pytest.approx(2)
    assert Row("b", "c", "s", fast).ratio is None


def test_rates_and_steps():
    assert as_rate(Side("x", [0.5, 0.25]), 100).samples == (200, 400)
    assert per_step(Side("x", [0.5, 0.25]), 5).samples == (0.1, 0.05)


def test_timed_calls_the_function_once_and_returns_seconds():
    calls = []
    assert timed(lambda: calls.append(1), "cpu")() >= 0
    assert calls == [1]


def test_bad_rows_are_refused():
    with pytest.raises(ValueError, match="'ms' is not known; use one of s, "):
        Row("b", "c", "ms", side("ours", 1.0))
    with pytest.raises(ValueError, match="measure both in the same rounds"):
        Row("b", "c", "s", side("ours", 1.0), Side("peer", [1.0]))
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


def test_processes_run_jobs_and_end():
    with processes(2) as group:
        assert group.run("allreduce", sizes=[10, 3], steps=2) > 0
        assert group.run("ddp_steps", batch_size=8, steps=1) > 0
    assert not torch.distributed.is_initialized()


def test_command_measures_and_writes_json(tmp_path, capsys):
    out = tmp_path / "run.json"
    assert command.main(["--only", "machine", "--quick", "--out", str(out)]) == 0
    text = capsys.readouterr().out
    assert "matrix product" in text
    assert "too small for the numbers to mean anything" in text
    record = json.loads(out.read_text())
    assert record["quick"] is True
    problems = records.check(record, records.file_name(record))
    assert problems, "a quick run is not to be mistaken for a record"


@pytest.mark.parametrize(
    "arguments", [["--quick", "--record"], ["--quick", "--check"], ["--repetitions", "0"]]
)
def test_command_refuses_what_would_mislead(arguments, capsys):
    with pytest.raises(SystemExit) as error:
        command.main(arguments)
    assert error.value.code == 2
    assert capsys.readouterr().err


@pytest.fixture
def one_stored_record(tmp_path, monkeypatch):
    """A folder of records with the example in it, and a command whose run gives the example."""
    old = example_record()
    records.save(old, tmp_path)
    monkeypatch.setattr(records, "load_all", lambda: {tmp_path / "old.json": old})
    others = ("rows", "format", "quick", "repetitions")
    about = {key: value for key, value in old.items() if key not in others}
    monkeypatch.setattr(command, "describe", lambda: about)
    return old


@pytest.mark.parametrize(("factor", "status"), [(1.0, 0), (1.5, 1)])
def test_check_fails_where_something_became_slower(
    factor, status, one_stored_record, monkeypatch, capsys
):
    rows = example_rows()
    slow = Row("lenet", "one epoch", "s", side("ours", factor * 5), side("d2l", 8))
    monkeypatch.setattr(command, "measure", lambda names, settings: ([slow, *rows[1:]], []))
    assert command.main(["--check"]) == status
    assert f"{status} slower" in capsys.readouterr().out


def test_check_without_a_record_says_so(one_stored_record, monkeypatch, capsys):
    monkeypatch.setattr(records, "load_all", dict)
    monkeypatch.setattr(command, "measure", lambda names, settings: (example_rows(), []))
    assert command.main(["--check"]) == 0
    assert "no record of Example CPU" in capsys.readouterr().out


def test_a_failing_benchmark_keeps_the_others_and_records_nothing(monkeypatch, capsys):
    def fail(settings):
        raise OSError("out of luck")

    class Broken:
        rows = staticmethod(fail)

    class Works:
        rows = staticmethod(lambda settings: example_rows())

    modules = {"benchmarks.bench_book": Broken, "benchmarks.bench_lenet": Works}
    monkeypatch.setattr(command.importlib, "import_module", modules.__getitem__)
    monkeypatch.setattr(records, "save", lambda record: pytest.fail("recorded"))
    assert command.main(["--only", "book", "--only", "lenet", "--record"]) == 1
    printed = capsys.readouterr()
    assert "one epoch" in printed.out
    assert "failed: book; nothing is recorded" in printed.out
    assert "out of luck" in printed.err


def test_memory_is_left_out_where_the_system_does_not_say(monkeypatch):
    assert provenance.hardware()["memory"] > 2**30
    monkeypatch.delattr("os.sysconf")  # as on Windows
    assert provenance.hardware()["memory"] is None


def test_commit_can_be_named_where_there_is_no_git(monkeypatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("D2LMINI_COMMIT", raising=False)
    with pytest.raises(ValueError, match="set D2LMINI_COMMIT"):
        provenance.describe()
    monkeypatch.setenv("D2LMINI_COMMIT", "f" * 40)
    assert provenance.describe()["commit"] == "f" * 40
