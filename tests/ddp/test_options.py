"""Options of the data-parallel script: what it refuses, and when."""

import itertools

import pytest
import train_ddp

from d2lmini import ddp

COUNTS = ["--max-steps", "--log-every", "--checkpoint-every", "--accumulate"]
COUNTS += ["--batch-size", "--width", "--synthetic"]
FROM_ZERO = ["--epochs", "--warmup", "--seed"]
NUMBERS = ["--lr", "--momentum", "--dropout"]
COUNT, WHOLE = "whole number of at least 1", "whole number of at least 0"
WRONG = [
    *itertools.product(COUNTS, ["0", "-1", "1.5", "nan", "ten", ""], [COUNT]),
    *itertools.product(FROM_ZERO, ["-1", "0.5", "inf"], [WHOLE]),
    *itertools.product(NUMBERS, ["-0.1", "nan", "inf", "1e400"], ["finite number of at least 0"]),
    *itertools.product(["--timeout"], ["0", "-5", "nan", "inf"], ["finite number of at least 1"]),
]


@pytest.mark.parametrize(("option", "text", "wanted"), WRONG)
def test_a_number_that_makes_no_sense_is_refused_in_a_sentence(option, text, wanted, capsys):
    with pytest.raises(SystemExit, match="2"):
        train_ddp.parse_args([f"{option}={text}", "--checkpoint", "run.pt"])
    last = capsys.readouterr().err.splitlines()[-1]
    assert f"argument {option}: {text!r} is not a {wanted}" in last


def test_the_least_numbers_are_taken():
    least = [*((name, "1") for name in COUNTS), *((name, "0") for name in FROM_ZERO + NUMBERS)]
    args = vars(train_ddp.parse_args([*itertools.chain(*least), "--checkpoint", "run.pt"]))
    for name, value in least:
        assert args[name[2:].replace("-", "_")] == float(value)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--resume"], "need --checkpoint FILE"),
        (["--checkpoint-every", "3"], "need --checkpoint FILE"),
        (["--checkpoint", ""], "--checkpoint is empty"),
    ],
)
def test_options_that_lack_a_file_are_refused(args, message, capsys):
    with pytest.raises(SystemExit):
        train_ddp.parse_args(args)
    assert message in capsys.readouterr().err


SMALL = ["--model", "lenet", "--synthetic", "8", "--batch-size", "4", "--log-every", "1"]


@pytest.fixture
def run(capsys):
    """Return a function that runs a small job in this process."""

    def run(*args):
        with ddp.process_group("cpu") as worker:
            train_ddp.Job(train_ddp.parse_args([*SMALL, *args]), worker).run()
        return capsys.readouterr().out

    return run


def test_no_epoch_is_no_step(run):
    out = run("--epochs", "0")
    assert '"event": "end"' in out
    assert '"event": "step"' not in out


@pytest.mark.parametrize("name", ["", "file/run.pt"], ids=["folder", "in a file"])
def test_a_checkpoint_that_cannot_be_written_ends_the_job_before_a_step(
    run, tmp_path, name, capsys
):
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(ValueError, match="give"):
        run("--epochs", "1", "--checkpoint", str(tmp_path / name))
    out = capsys.readouterr().out
    assert '"event": "start"' in out
    assert '"event": "step"' not in out
