"""The command line of `simgpu check`."""

import pytest

from simgpu.__main__ import USAGE, main
from simgpu.check.options import make_parser, on_one_gpu, parse


def parsed(*words):
    return parse(make_parser(), words)


@pytest.mark.parametrize(
    "words",
    [
        ("train.py", "--nproc-per-node", "4", "--", "--batch", "8"),
        ("--nproc-per-node", "4", "train.py", "--batch", "8"),
        ("--nproc-per-node", "4", "train.py", "--", "--batch", "8"),
    ],
)
def test_the_script_may_stand_first(words):
    args = parsed(*words)
    assert (args.script, args.nproc_per_node, args.args) == ("train.py", "4", ["--batch", "8"])


def test_one_gpu_gets_other_arguments():
    args = parsed(
        "train.py", "--nproc-per-node", "4", "--one", "--batch '3 2'", "--", "--batch", "8"
    )
    one = on_one_gpu(args, starts_itself=False)
    assert (one.nproc_per_node, one.args, args.args) == ("1", ["--batch", "3 2"], ["--batch", "8"])
    assert on_one_gpu(args, starts_itself=True).gpus_per_node == 1


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--kill", "1@step2"], "--kill belongs to simgpu run"),
        (["--timeline", "x.html"], "--timeline belongs to simgpu run"),
        (["--shapes-only"], "--shapes-only: what is compared are values"),
        (["--steps", "-1"], "--steps -1: give a positive number, or 0 for all"),
        (["--tolerance", "-1"], "--tolerance -1: give a share"),
        (["--growth", "-1"], "--growth -1: give a percentage"),
        (["--record", "r", "--one", "x"], "--one: with --record"),
        (["--against", "no.json"], "--against no.json: No such file or directory; write a record"),
        ([], "give the number of GPUs to compare with one"),
    ],
)
def test_what_makes_no_sense_is_refused(words, text, tmp_path, capsys):
    (tmp_path / "train.py").write_text("pass", encoding="utf-8")
    with pytest.raises(SystemExit) as error:
        main(["check", *words, str(tmp_path / "train.py")])
    assert error.value.code == 2
    assert text in capsys.readouterr().err


def test_arguments_of_the_script_that_stand_among_options_are_sent_behind_them(capsys):
    with pytest.raises(SystemExit):
        parsed("train.py", "--nproc-per-node", "4", "--batch", "8")
    assert "--batch; what train.py takes stands behind --, after all" in capsys.readouterr().err


def test_the_help_names_the_exit_codes(capsys):
    with pytest.raises(SystemExit):
        main(["check", "--help"])
    printed = " ".join(capsys.readouterr().out.split())
    assert "0: nothing differs, 1: something does, 2: it could not be run" in printed
    assert "--kill" not in printed
    assert "simgpu check SCRIPT" in USAGE
