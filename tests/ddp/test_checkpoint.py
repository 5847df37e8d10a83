"""What a checkpoint brings back, and which files are refused."""

import copy
import errno
import hashlib
import io
import os
import zipfile
from pathlib import Path
from unittest import mock

import pytest
import torch
from support.samples.damage import flips_and_cuts
from torch import nn

from d2lmini import ddp
from d2lmini.ddp import checkpoint

CONFIG = {"lr": 0.1}


@pytest.fixture(autouse=True)
def _worker():
    with ddp.process_group("cpu") as worker:
        yield worker


@pytest.fixture
def parts():
    """Return a model and an optimiser with a state of its own."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    optimizer = torch.optim.SGD(net.parameters(), 0.1, momentum=0.9)
    net(torch.ones(4, 3)).sum().backward()
    optimizer.step()
    return net, optimizer


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run.pt"


def save(path, parts, step=1):
    ddp.save_checkpoint(path, *parts, {"step": step}, CONFIG)


def load(path, parts, config=CONFIG):
    return ddp.load_checkpoint(path, *parts, config)


def begin(path, parts, resume=False):
    return ddp.begin_or_resume(path, resume, *parts, CONFIG)


class TestWhole:
    def test_all_comes_back(self, parts, tmp_path):
        path = tmp_path / "new folder" / "run.pt"
        net, optimizer = parts
        save(path, parts, step=7)
        weights, numbers = ddp.fingerprint(net.state_dict()), torch.rand(3)
        momentum = optimizer.state_dict()["state"][0]["momentum_buffer"].clone()
        for p in net.parameters():
            p.data.zero_()
            optimizer.state[p]["momentum_buffer"].zero_()
        assert load(path, parts) == {"step": 7}
        assert ddp.fingerprint(net.state_dict()) == weights
        assert torch.equal(optimizer.state_dict()["state"][0]["momentum_buffer"], momentum)
        assert torch.equal(torch.rand(3), numbers), "random numbers go on where they were"

    def test_others_can_read_it(self, parts, path):
        save(path, parts)
        assert torch.load(path, weights_only=True)["progress"] == {"step": 1}
        assert zipfile.ZipFile(path).testzip() is None

    def test_a_new_run_does_not_overwrite_an_old_one(self, parts, path):
        assert begin(path, parts) is None
        save(path, parts)
        with pytest.raises(ValueError, match=r"run\.pt exists: resume from it, or give another"):
            begin(path, parts)
        assert begin(path, parts, resume=True) == {"step": 1}
        assert begin(None, parts) is None

    def test_other_settings_are_an_error(self, parts, path):
        save(path, parts)
        with pytest.raises(ValueError, match=r"lr = 0\.1, this job has lr = 0\.2: give the same"):
            load(path, parts, {"lr": 0.2})

    def test_a_link_stays_and_its_target_is_replaced(self, parts, path, tmp_path):
        target = tmp_path / "elsewhere" / "target.pt"
        path.symlink_to(target)
        for step in (1, 2):
            save(path, parts, step)
            assert path.is_symlink()
            assert load(target, parts) == {"step": step}
        assert sorted(os.listdir(target.parent)) == ["target.pt"]


def check_flips_and_cuts(path, parts):
    """Check that a file with a flipped bit or a lost end is refused, whatever the bit is."""
    save(path, parts)
    content = path.read_bytes()
    for damaged in flips_and_cuts(content, 200):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"run\.pt is damaged .* start from the beginning"):
            load(path, parts)
    path.write_bytes(content)
    load(path, parts)


def packed(state):
    """Return a state as `torch.save` writes it, with the right SHA-256 behind it."""
    buffer = io.BytesIO()
    torch.save(state, buffer)
    return buffer.getvalue() + hashlib.sha256(buffer.getvalue()).digest()


class TestDamaged:
    @pytest.mark.slow
    def test_flipped_bits_and_lost_ends_are_refused(self, parts, path):
        check_flips_and_cuts(path, parts)

    @pytest.mark.filterwarnings("ignore")  # what torch.load thinks of damaged bytes
    def test_reading_without_the_hash_is_rejected(self, parts, path):
        any_hash = mock.Mock(**{"sha256.return_value.digest.return_value": mock.ANY})
        save(path, parts)
        content = path.read_bytes()
        with (
            mock.patch.object(checkpoint, "hashlib", any_hash),
            mock.patch.object(checkpoint, "_serialise", return_value=content),
            pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"),
        ):
            check_flips_and_cuts(path, parts)

    @pytest.mark.parametrize(
        "content", [b"", b"half of it", b"x" * 32], ids=["empty", "text", "32 bytes"]
    )
    def test_other_files_are_refused(self, parts, path, content):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"run\.pt is damaged or no checkpoint"):
            begin(path, parts, resume=True)

    @pytest.mark.parametrize(
        "state",
        [torch.ones(3), [1, 2], {}, {"model": {}}, "text", None],
        ids=["tensor", "list", "empty", "missing keys", "text", "None"],
    )
    def test_foreign_checkpoints_are_refused(self, parts, path, state):
        torch.save(state, path)
        with pytest.raises(ValueError, match=r"run\.pt .*\(its SHA-256 is not the one at its end"):
            begin(path, parts, resume=True)
        path.write_bytes(packed(state))
        with pytest.raises(ValueError, match=r"run\.pt .* does not hold model, optimizer"):
            begin(path, parts, resume=True)

    @pytest.mark.parametrize("entry", checkpoint.ENTRIES)
    def test_an_entry_of_another_kind_is_refused(self, parts, path, entry):
        save(path, parts)
        state = torch.load(path, weights_only=True)
        for wrong in (copy.copy(state) | {entry: None}, {k: state[k] for k in state if k != entry}):
            path.write_bytes(packed(wrong))
            with pytest.raises(ValueError, match=r"run\.pt .* does not hold model"):
                load(path, parts)

    def test_a_negative_count_is_refused(self, parts, path):
        save(path, parts, step=-1)
        nn.init.zeros_(parts[0][0].weight)
        with pytest.raises(ValueError, match=r"run\.pt is damaged .*step = -1 in its progress"):
            load(path, parts)
        assert not parts[0][0].weight.any()  # nothing was loaded

    def test_a_file_that_runs_code_is_refused(self, parts, path, tmp_path):
        class Code:
            def __reduce__(self):
                return Path.touch, (tmp_path / "ran",)

        path.write_bytes(packed({"model": Code()}))
        with pytest.raises(ValueError, match=r"run\.pt .* \(UnpicklingError\)"):
            load(path, parts)
        assert not (tmp_path / "ran").exists()

    def test_a_file_that_may_not_be_read_is_not_called_damaged(self, parts, path):
        save(path, parts)
        refusal = PermissionError(errno.EACCES, "Permission denied")
        with (  # root may read everything, so the refusal is acted
            mock.patch.object(Path, "read_bytes", side_effect=refusal),
            pytest.raises(ValueError, match=r"run\.pt cannot be read \(Permission denied\): make"),
        ):
            begin(path, parts, resume=True)


class TestWriting:
    @pytest.mark.parametrize("failing", ["fsync", "replace"])
    def test_an_interrupt_leaves_the_old_state_and_nothing_else(self, parts, path, failing):
        save(path, parts, step=1)
        with (
            mock.patch.object(checkpoint.os, failing, side_effect=KeyboardInterrupt),
            pytest.raises(KeyboardInterrupt),
        ):
            save(path, parts, step=2)
        assert load(path, parts) == {"step": 1}
        assert os.listdir(path.parent) == ["run.pt"]

    def test_the_file_is_on_the_disk_before_it_gets_its_name(self, parts, path):
        calls = mock.Mock(wraps=os)
        with mock.patch.object(checkpoint, "os", calls):
            save(path, parts)
        names = [name for name, _, _ in calls.method_calls if name in ("fsync", "replace")]
        assert names == ["fsync", "replace"]

    def test_a_full_disk_is_named_and_leaves_the_old_state(self, parts, path):
        save(path, parts, step=1)
        full = OSError(errno.ENOSPC, "No space left on device")
        with (
            mock.patch.object(checkpoint.os, "fsync", side_effect=full),
            pytest.raises(OSError, match=r"run\.pt \(No space left on device\): make room there"),
        ):
            save(path, parts, step=2)
        assert load(path, parts) == {"step": 1}
        assert os.listdir(path.parent) == ["run.pt"]

    @pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")
    def test_a_full_device_is_refused_as_such(self, parts, path):
        path.with_name("run.pt.part").symlink_to("/dev/full")
        with pytest.raises(OSError, match=r"run\.pt \(No space left on device\): make room there"):
            save(path, parts)
        assert os.listdir(path.parent) == []
        assert Path("/dev/full").exists()

    @pytest.mark.parametrize("name", ["", ".", "folder", "pipe"])
    @pytest.mark.parametrize("resume", [False, True])
    def test_what_is_no_file_is_refused_at_the_beginning(
        self, parts, tmp_path, monkeypatch, name, resume
    ):
        (tmp_path / "folder").mkdir()
        os.mkfifo(tmp_path / "pipe")
        monkeypatch.chdir(tmp_path)
        with pytest.raises(ValueError, match=rf"'{name}' is not a file: give the path of one"):
            begin(name, parts, resume)
        assert sorted(os.listdir(tmp_path)) == ["folder", "pipe"]

    @pytest.mark.parametrize("resume", [False, True])
    def test_a_place_that_cannot_be_written_is_refused_at_the_beginning(
        self, parts, tmp_path, resume
    ):
        (tmp_path / "file").write_text("no folder")
        for path in (tmp_path / "file" / "run.pt", tmp_path / ("x" * 300)):
            with pytest.raises(ValueError, match=rf"no checkpoint can be written to {path} \("):
                begin(path, parts, resume)

    def test_the_attempt_leaves_nothing(self, parts, path):
        begin(path, parts)
        assert os.listdir(path.parent) == []
