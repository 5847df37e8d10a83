"""A job whose processes die ends soon and clearly, and goes on as if nothing had happened."""

import json
import os
import random
import shutil
import signal
import socket
import sys
import time

import pytest
import train_ddp
from support.programs.ddp_jobs import (
    RUN,
    SCRIPT,
    Blow,
    Process,
    end_of,
    random_blow,
    run_scenarios,
    run_through,
)

from d2lmini import ddp
from d2lmini.ddp import torchrun_command


@pytest.fixture(scope="module")
def uninterrupted():
    """Fingerprint of the final weights of a run on two ranks that nobody disturbs."""
    return end_of(run_scenarios(2)[1][-1:])


@pytest.mark.exhaustive
def test_a_job_that_a_cluster_ends_early_goes_on_to_the_same_bits(uninterrupted, tmp_path):
    blow = Blow(signal.SIGTERM, "launcher", records=13)
    assert run_through([blow], tmp_path / "run.pt") == uninterrupted


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", range(8))
def test_a_job_that_is_struck_at_random_ends_with_the_same_bits(seed, uninterrupted, tmp_path):
    draw = random.Random(seed)
    assert run_through([random_blow(draw) for _ in range(4)], tmp_path / "run.pt") == uninterrupted


def kill_rank_1_in_second_epoch(job):
    """Send SIGKILL to rank 1 between two checkpoints; return the time."""
    ranks = job.wait_for(lambda r: r["event"] == "start")["ranks"]
    job.wait_for(lambda r: r["event"] == "step" and r["epoch"] == 1 and r["step"] >= 6)
    os.kill(ranks[1]["pid"], signal.SIGKILL)
    return time.monotonic()


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """Return exit code, messages, seconds after the kill, and the checkpoint of a killed job."""
    path = tmp_path_factory.mktemp("killed") / "run.pt"
    job = Process(torchrun_command(SCRIPT, *RUN, "--checkpoint", path, nproc_per_node=2))
    begin = kill_rank_1_in_second_epoch(job)
    code, errors = job.finish()
    return code, errors, time.monotonic() - begin, path


@pytest.mark.exhaustive
@pytest.mark.process
def test_a_killed_rank_ends_the_job_within_a_minute_and_is_named(killed):
    code, errors, seconds, _ = killed
    assert code != 0
    assert seconds < 60
    report = errors[errors.index("Root Cause") :]
    assert "rank      : 1" in report
    assert "SIGKILL" in report


@pytest.mark.exhaustive
def test_a_resumed_job_ends_with_the_same_bits(killed, uninterrupted, tmp_path):
    path = str(shutil.copy(killed[3], tmp_path / "run.pt"))
    args = [*RUN, "--checkpoint", path, "--resume"]
    job = Process(torchrun_command(SCRIPT, *args, nproc_per_node=2))
    code, errors = job.finish()
    assert code == 0, errors
    begin = next(record for record in job.records if record["event"] == "begin")
    assert begin["epoch"] == 1
    assert begin["step"] >= 4
    assert end_of(job.records) == uninterrupted


@pytest.mark.long
@pytest.mark.process
def test_a_job_of_another_size_may_not_resume(killed, tmp_path):
    path = str(shutil.copy(killed[3], tmp_path / "run.pt"))
    args = train_ddp.parse_args([*RUN, "--checkpoint", path, "--resume"])
    with (
        pytest.raises(ValueError, match=r"written by 2 ranks, this job has 1: start 2 processes"),
        ddp.process_group("cpu") as worker,
    ):
        train_ddp.Job(args, worker).run()


def free_port():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


@pytest.mark.exhaustive
def test_two_machines_restart_after_a_killed_worker(uninterrupted, tmp_path):
    """Two launchers on loopback, as on two machines; `--max-restarts` starts both sides again."""
    path = tmp_path / "run.pt"
    options = {"nnodes": 2, "endpoint": f"127.0.0.1:{free_port()}", "max_restarts": 3}
    command = torchrun_command(SCRIPT, *RUN, "--checkpoint", path, **options)
    jobs = [Process(command), Process(command)]
    # Which of the two becomes rank 0, and prints, is decided when they meet.
    while not any(job.records for job in jobs):
        assert all(job.process.poll() is None for job in jobs), [job.stderr() for job in jobs]
        time.sleep(0.01)
    speaker = next(job for job in jobs if job.records)
    kill_rank_1_in_second_epoch(speaker)
    for job in jobs:
        code, errors = job.finish()
        assert code == 0, errors
    records = jobs[0].records + jobs[1].records
    begins = [(r["epoch"], r["step"]) for r in records if r["event"] == "begin"]
    assert begins[0] == (0, 0)
    assert begins[-1] >= (1, 4), "nothing that was saved is done again"
    assert end_of(records) == uninterrupted


@pytest.mark.process
@pytest.mark.exhaustive
def test_a_bug_in_one_rank_is_not_blamed_on_the_others(tmp_path):
    """Without the wait of a survivor, the launcher may take it for the first that failed."""
    script = tmp_path / "bug.py"
    script.write_text(
        "from torch.distributed.elastic.multiprocessing.errors import record\n"
        "from d2lmini import ddp\n"
        "@record\n"
        "def main():\n"
        "    with ddp.process_group('cpu') as worker:\n"
        "        assert worker.rank == 0, 'the bug'\n"
        "        ddp.wait_for_all_ranks()\n"
        "main()\n"
    )
    with pytest.raises(
        RuntimeError, match=r"(?s)ended with code 1.*Root Cause.*rank +: 1.*the bug"
    ):
        ddp.launch(script, nproc_per_node=2)


@pytest.fixture
def launched_by_hand(monkeypatch):
    """Return a function that sets the launcher's variables."""

    def set_variables(**changes):
        variables = {"RANK": 0, "WORLD_SIZE": 2, "LOCAL_RANK": 0, "LOCAL_WORLD_SIZE": 2}
        variables |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port()} | changes
        for name, value in variables.items():
            if value is None:
                monkeypatch.delenv(name, raising=False)
            else:
                monkeypatch.setenv(name, str(value))

    return set_variables


def join(timeout=1.0):
    with ddp.process_group("cpu", timeout):
        pass


def test_a_taken_port_is_named(launched_by_hand):
    with socket.socket() as sock:
        sock.bind(("0.0.0.0", 0))
        sock.listen()
        port = sock.getsockname()[1]
        launched_by_hand(MASTER_PORT=port)
        with pytest.raises(RuntimeError, match=rf"port {port} is taken .* --standalone"):
            join()


@pytest.mark.slow
def test_a_rank_that_does_not_come_is_reported(launched_by_hand):
    launched_by_hand()
    with pytest.raises(
        RuntimeError, match=r"rank 0 of 2 could not meet the others at 127\.0\.0\.1"
    ):
        join()


def test_incomplete_variables_are_named(launched_by_hand):
    launched_by_hand(LOCAL_RANK=None, MASTER_PORT=None)
    with pytest.raises(ValueError, match="not LOCAL_RANK, MASTER_PORT: start the script with"):
        join()


def test_restarts_that_would_hang_are_refused(launched_by_hand, monkeypatch):
    """Known bug: processes of a second start wait at the store of the first for dead ones."""
    launched_by_hand()
    monkeypatch.setenv("TORCHELASTIC_MAX_RESTARTS", "1")
    monkeypatch.setenv("TORCHELASTIC_USE_AGENT_STORE", "True")
    with pytest.raises(ValueError, match="needs TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1"):
        join()


def test_damaged_data_are_an_error(tmp_path, monkeypatch):
    monkeypatch.setenv("D2LMINI_DATA", str(tmp_path))
    args = train_ddp.parse_args([])
    with pytest.raises(ValueError, match=str(tmp_path)), ddp.process_group("cpu") as worker:
        train_ddp.Job(args, worker)


@pytest.mark.filterwarnings("ignore:Unable to enable fault handler")  # of captured output
def test_the_script_runs_without_a_launcher(capsys, monkeypatch):
    args = ["--model", "lenet", "--synthetic", "64", "--epochs", "1"]
    monkeypatch.setattr(sys, "argv", ["train_ddp.py", *args])
    train_ddp.main()
    records = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [record["event"] for record in records] == ["start", "begin", "epoch", "end"]
    assert records[0]["world_size"] == 1
