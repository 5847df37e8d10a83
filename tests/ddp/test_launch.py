"""Start jobs: the command, the records, what else the processes write."""

import json
import multiprocessing
import re
import subprocess
import sys
import time
from unittest import mock

import pytest
import torch
from support.programs.ddp_jobs import is_running

from d2lmini import ddp
from d2lmini.ddp import records

CELL = """
import multiprocessing
def worker():
    print("worked")
if __name__ == "__main__":
    process = multiprocessing.get_context("spawn").Process(target=worker)
    process.start()
    process.join()
    raise SystemExit(process.exitcode)
"""


class TestLaunch:
    """Known bug: workers that cannot import a function defined in a cell; forks of a used state."""

    @pytest.mark.process
    def test_a_worker_cannot_import_a_function_of_a_cell(self, tmp_path):
        done = subprocess.run([sys.executable, "-"], input=CELL, capture_output=True, text=True)
        assert done.returncode != 0  # as in a notebook: the code is in no file
        script = tmp_path / "worker.py"
        script.write_text(CELL)
        done = subprocess.run([sys.executable, script], capture_output=True, text=True)
        assert (done.returncode, done.stdout) == (0, "worked\n")

    def test_a_function_is_refused(self):
        def worker():
            pass

        with pytest.raises(ValueError, match=r"worker is a function, .* write it to a file"):
            ddp.launch(worker)

    @pytest.mark.long
    @pytest.mark.process
    def test_a_fork_inherits_what_a_launched_process_does_not(self, tmp_path):
        script = tmp_path / "state.py"
        script.write_text(
            "import torch\n"
            "from d2lmini import ddp\n"
            "with ddp.process_group('cpu') as worker:\n"
            "    worker.report('state', used=getattr(torch, 'used_by_parent', False))\n"
        )
        queue = multiprocessing.get_context("fork").SimpleQueue()
        with mock.patch.object(torch, "used_by_parent", True, create=True):
            forked = multiprocessing.get_context("fork").Process(
                target=lambda: queue.put(hasattr(torch, "used_by_parent"))
            )
            forked.start()
            assert queue.get() is True  # as it would inherit CUDA's state, which a child cannot use
            forked.join()
            assert ddp.launch(script) == [{"event": "state", "used": False}]

    def test_several_machines_need_a_meeting_point(self):
        with pytest.raises(ValueError, match="2 machines need an endpoint"):
            ddp.torchrun_command("train.py", nnodes=2)

    def test_one_machine_needs_no_name(self):
        command = " ".join(ddp.torchrun_command("train.py"))
        assert "--standalone --local-addr 127.0.0.1 train.py" in command
        options = {"nnodes": 2, "endpoint": "first:29400"}
        assert "local-addr" not in " ".join(ddp.torchrun_command("train.py", **options))

    def test_one_machine_can_meet_at_a_file(self):
        command = " ".join(ddp.torchrun_command("train.py", endpoint="/tmp/new"))
        assert "--rdzv-endpoint /tmp/new --rdzv-conf store_type=file" in command
        assert "--standalone" not in command

    def test_a_command_with_restarts_is_complete(self, monkeypatch):
        """Known bug: processes of a second start wait at the store of the first for dead ones."""
        command = ddp.torchrun_command("train.py", max_restarts=3, python="python")
        start = ["env", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1", "python"]
        assert command[:3] == start
        assert ddp.torchrun_command("train.py", python="python")[0] == "python"
        monkeypatch.setattr(sys, "platform", "win32")  # which has no `env`
        command = ddp.torchrun_command("train.py", max_restarts=3, python="python")
        assert command[0] == "python"

    def test_messages_stay_inside_one_machine(self, monkeypatch):
        monkeypatch.delenv("GLOO_SOCKET_IFNAME", raising=False)
        for system, interface in [("linux", "lo"), ("darwin", "lo0"), ("win32", None)]:
            monkeypatch.setattr(sys, "platform", system)
            assert ddp.launcher_environment().get("GLOO_SOCKET_IFNAME") == interface
            assert "GLOO_SOCKET_IFNAME" not in ddp.launcher_environment(nnodes=2)
        monkeypatch.setenv("GLOO_SOCKET_IFNAME", "eth0")
        assert ddp.launcher_environment()["GLOO_SOCKET_IFNAME"] == "eth0"


# What a program may print: JSON, NCCL's log, bytes that are no text, and no end of line.
NOISY = """
import os, sys, threading
from d2lmini import ddp

LINES = [
    'no end of line',
    '{"event": "step", "step": -1}\\n',
    "{'event': 'end'}\\n",
    '[1, 2]\\nnull\\n3\\n',
    '{"event": "cut off',
    'NCCL version 2.30.3+cuda13.0\\n',
    f'host:{os.getpid()}:{os.getpid()} [0] NCCL INFO Bootstrap: Using lo:127.0.0.1<0>\\n',
    '\\xff\\xfe\\u2028 \\r\\n',
]

def make_noise():
    for number in range(400):
        os.write(1, LINES[number % len(LINES)].encode('latin-1', 'ignore'))

with ddp.process_group('cpu') as worker:
    noise = threading.Thread(target=make_noise)
    noise.start()
    for step in range(200):
        sys.stdout.write(f'half a line of rank {worker.rank} ')
        worker.report('step', step=step, text='\\u2028 é \\n', share=step / 3)
    noise.join()
    print(f'{{"event": "last line of rank {worker.rank}"}}', end='')
"""


def run(script, tmp_path, **options):
    path = tmp_path / "script.py"
    path.write_text(script)
    return ddp.launch(path, **options)


class TestRecords:
    @pytest.mark.long
    @pytest.mark.process
    def test_records_are_those_of_rank_0_whatever_is_printed(self, tmp_path, capsys):
        found = run(NOISY, tmp_path, nproc_per_node=2)
        steps = range(200)
        texts = {"event": "step", "text": "\u2028 é \n"}
        assert found == [texts | {"step": step, "share": step / 3} for step in steps]
        printed = capsys.readouterr().out
        assert printed.count("NCCL version 2.30.3+cuda13.0") == 100
        assert printed.count('{"event": "step", "step": -1}') == 100
        for rank in (0, 1):
            assert printed.count(f"half a line of rank {rank}") == 200
            assert f"last line of rank {rank}" in printed

    def test_by_hand_they_are_lines_of_json(self, capsys, monkeypatch):
        monkeypatch.delenv(records.FILE_VARIABLE, raising=False)
        for rank in (0, 1):
            ddp.Worker(rank, 2, torch.device("cpu"), "gloo", "").report("here", rank=rank)
        assert capsys.readouterr().out == '{"event": "here", "rank": 0}\n'

    def test_a_record_that_was_cut_off_takes_no_other_with_it(self, tmp_path, monkeypatch):
        path = tmp_path / "records"
        monkeypatch.setenv(records.FILE_VARIABLE, str(path))
        records.write_record({"step": 1})
        with open(path, "ab") as file:
            file.write(b'\n{"step": 2, "lo')  # killed
        records.write_record({"step": 2})
        assert records.read_records(path) == [{"step": 1}, {"step": 2}]

    def test_numbers_that_json_lacks_are_text(self, capsys, monkeypatch):
        """`json.dumps` writes NaN, which no other reader of JSON takes."""
        monkeypatch.delenv(records.FILE_VARIABLE, raising=False)
        inf, nan = float("inf"), float("nan")
        records.write_record({"loss": nan, "config": {"lr": [inf, (-inf, 0.5)]}, "step": 3})
        found = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
        assert found == {
            "loss": "NaN",
            "config": {"lr": ["Infinity", ["-Infinity", 0.5]]},
            "step": 3,
        }
        assert float(found["config"]["lr"][0]) == inf

    @pytest.mark.process
    def test_no_record_is_an_empty_list(self, tmp_path, capsys):
        assert run("print('hello')", tmp_path) == []
        assert capsys.readouterr().out == "hello\n"


class TestFailures:
    @pytest.mark.process
    def test_what_was_printed_is_seen(self, tmp_path, capsys):
        with pytest.raises(RuntimeError, match=r"(?s)ended with code 1.*built without libuv.*WSL"):
            run("print('so far')\nraise SystemExit('PyTorch was built without libuv')", tmp_path)
        assert capsys.readouterr().out == "so far\n"

    @pytest.mark.long
    @pytest.mark.process
    def test_a_job_that_takes_too_long_is_ended_with_its_processes(self, tmp_path):
        script = (
            "import os, pathlib, sys, time\n"
            "pathlib.Path(sys.argv[1], os.environ['RANK']).write_text(str(os.getpid()))\n"
            "print('waiting', file=sys.stderr, flush=True)\n"
            "time.sleep(600)\n"
        )
        path = tmp_path / "script.py"
        path.write_text(script)
        begin = time.monotonic()
        with pytest.raises(RuntimeError, match=r"(?s)did not end within 15 s.*waiting"):
            ddp.launch(path, tmp_path, nproc_per_node=2, timeout=15)
        assert time.monotonic() - begin < 50
        for rank in "01":
            assert not is_running(int((tmp_path / rank).read_text()))

    @pytest.mark.process
    @pytest.mark.exhaustive
    def test_a_wish_that_cannot_be_granted_is_read(self, tmp_path):
        script = (
            "from d2lmini import ddp\n"
            "from unittest import mock\n"
            "with mock.patch.object(ddp.choice, 'usable_gpus', lambda: (0, 'too old')):\n"
            "    with ddp.process_group('cuda'):\n"
            "        pass\n"
        )
        with pytest.raises(RuntimeError, match=r"ValueError: too old; or take the device 'cpu'"):
            run(script, tmp_path, nproc_per_node=2)


LISTENING = """
import os
from pathlib import Path
from d2lmini import ddp

LISTENS = '0A'  # a state in /proc/net/tcp

def sockets(pid):
    names = [os.path.realpath(path) for path in Path(f'/proc/{pid}/fd').iterdir()]
    return {name.split('socket:[')[1][:-1] for name in names if 'socket:[' in name}

def listening(pids):
    mine = set().union(*map(sockets, pids))
    rows = [line.split() for name in ('tcp', 'tcp6')
            for line in Path('/proc/net', name).read_text().splitlines()[1:]]
    return [row[1] for row in rows if row[3] == LISTENS and row[9] in mine]

with ddp.process_group('cpu') as worker:
    ddp.wait_for_all_ranks()
    pids = [rank['pid'] for rank in worker.describe()['ranks']]
    worker.report('sockets', at=listening([*pids, os.getppid()]))
    ddp.wait_for_all_ranks()
"""


@pytest.mark.exhaustive
@pytest.mark.process
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has /proc/net/tcp")
@pytest.mark.parametrize(
    "options",
    [
        pytest.param({}, id="once"),
        pytest.param({"max_restarts": 1}, id="restarts", marks=pytest.mark.exhaustive),
    ],
)
def test_no_process_of_a_job_on_one_machine_listens_to_others(tmp_path, options):
    """Launcher included: the one of `--standalone` listens at all addresses of the machine."""
    (found,) = run(LISTENING, tmp_path, nproc_per_node=2, **options)
    assert len(found["at"]) >= 3  # rank 0's store, and gloo on each rank
    assert all(re.fullmatch("0100007F:[0-9A-F]{4}", address) for address in found["at"]), found
