"""`record`: what runs in its block, and nothing of the profiler's own talk."""

import os

import torch

from d2lmini import record

LOG = "USDT:2026-01-31 12:00:00 7:7 SyncActivityProfilerHandler.cpp:52] profiler_start\n"


def test_recording_the_cpu_says_nothing(capfd):
    with record("cpu") as recording:
        torch.ones(10, 10) @ torch.ones(10, 10)
    assert recording.timeline.busy()["host", "cpu"] > 0
    assert capfd.readouterr() == ("", "")


def test_the_profilers_log_is_dropped_and_other_messages_are_kept(capfd, monkeypatch):
    class Talkative(torch.profiler.profile):
        def stop(self):
            super().stop()
            os.write(2, (LOG + "the tracer was refused\n").encode())

    monkeypatch.setattr(torch.profiler, "profile", Talkative)
    with record("cpu"):
        torch.ones(10).sum()
    assert capfd.readouterr().err == "the tracer was refused\n"
