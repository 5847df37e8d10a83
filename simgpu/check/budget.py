"""A record of simulated time, memory and bytes of a run, and what has grown since.

The numbers are simulated, and the same in every run of the same program, so the tolerance can be
tight. A record holds the options that they are for; other hardware is refused.
"""

import json
import sys
from pathlib import Path

import simgpu as sim
from simgpu.check.findings import DIFFERS, EQUAL, UNKNOWN
from simgpu.check.report import write_json
from simgpu.run.summary import summarize
from simgpu.units import quantity
from simgpu.units import size as in_bytes

FORMAT = "simgpu check record 1"
NUMBERS = {
    "step_time_seconds": "step time", "peak_memory_bytes": "peak memory",
    "bytes_sent_per_step": "bytes sent in a step",
}  # fmt: skip


def main(args, job) -> int:
    """Write a record, or compare a run with one; return the exit code.

    Raises
    ------
    ValueError
        If the record cannot be read.
    """
    before = None if args.against is None else read(args.against)
    run = job.run(watch=False)
    if run.code:
        sys.stderr.write(run.text)
        print(f"simgpu check: the script failed (exit code {run.code})", file=sys.stderr)
        return UNKNOWN
    now = measure(job)
    if now["steps"] == 0:
        print(
            "simgpu check: the script made fewer than two training steps; give --steps 2 or more",
            file=sys.stderr,
        )
        return UNKNOWN
    if before is None:
        Path(args.record).write_text(f"{json.dumps(now, indent=1)}\n", encoding="utf-8")
        print("\n".join([f"recorded in {args.record}: {now['hardware']}", *_numbers(now)]))
        return EQUAL
    return _compare(args, before, now)


def read(path) -> dict:
    """Read a record.

    Raises
    ------
    ValueError
        If there is no such file, or it is no record.
    """
    try:
        record = json.loads(Path(path).read_text(encoding="utf-8"))
        if record["format"] != FORMAT or not all(record[name] >= 0 for name in NUMBERS):
            raise ValueError
    except OSError as error:
        raise ValueError(
            f"--against {path}: {error.strerror}; write a record with --record"
        ) from None
    except (ValueError, KeyError, TypeError):
        raise ValueError(
            f"--against {path}: not a record of simgpu check; write one with --record"
        ) from None
    return record


def measure(job) -> dict:
    """Return the numbers of the last run of a job."""
    spans = sim.trace()
    summary = summarize(spans, job.steps, job.cluster)
    ranks = {span.device for span in spans if span.device.startswith("rank ")}
    sent = sum(
        span.bytes for span in spans
        if span.engine == "comm" and span.device in ranks
        and summary.start < span.start + span.duration / 2 <= summary.end
    )  # fmt: skip
    return {
        "format": FORMAT,
        "hardware": summary.hardware,
        "steps": summary.num_steps,
        "step_time_seconds": summary.step_seconds,
        "peak_memory_bytes": max(summary.peak_memory.values()),
        "bytes_sent_per_step": sent / max(1, summary.num_steps) / max(1, len(summary.peak_memory)),
    }


def _compare(args, before, now):
    if before["hardware"] != now["hardware"]:
        print(
            f"cannot tell: the record is for {before['hardware']}, this run for {now['hardware']}"
        )
        return UNKNOWN
    grown = [n for n in NUMBERS if now[n] > before[n] * (1 + args.growth / 100)]
    names = " and ".join(NUMBERS[name] for name in grown)
    headline = f"within {args.growth:g} % of {args.against}"
    if grown:
        headline = f"grown: {names}, by more than {args.growth:g} % since {args.against}"
    if args.json != "-":
        print("\n".join([headline, *_numbers(now, before)]))
    if args.json is not None:
        write_json(args.json, {"before": before, "now": now, "grown": grown})
    return DIFFERS if grown else EQUAL


def _numbers(now, before=None):
    for name, words in NUMBERS.items():
        text = f"{words:<22} {_write(name, now[name]):<12}"
        if before is not None:
            share = now[name] / before[name] - 1 if before[name] else float(now[name] > 0)
            text += f" {100 * share:+.1f} % of {_write(name, before[name])}"
        yield text.rstrip()


def _write(name, number):
    return quantity(number, "s") if name.endswith("seconds") else in_bytes(number)
