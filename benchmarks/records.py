"""Records: what ``make bench`` measured, kept as JSON in ``records/``, and how two of them compare.

A file holds samples and facts. What follows from them (medians, ranges, ratios) is derived by
`benchmarks.measure`.
"""

import json
import os
import platform
import re
import subprocess
from dataclasses import dataclass
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path

import torch

from benchmarks.measure import Row
from simgpu.units import number, quantity, scale

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "records"
FORMAT = "d2lmini benchmarks 2"
PACKAGES = ("torch", "torchvision", "numpy", "d2l", "d2lmini")
TOLERANCE = 0.05  # smaller changes are not worth a report, whatever the spread


@dataclass(frozen=True)
class Record:
    """A run: how it came about (see `provenance`), and its rows."""

    date: str  # UTC, when the run began
    commit: str
    modified: bool  # whether the files differed from the commit
    load: float | None  # processes that wanted a core in the minute before
    hardware: dict
    versions: dict
    rows: list

    @property
    def repetitions(self):
        """How often was measured."""
        return max(len(row.ours.samples) for row in self.rows)

    @property
    def machine(self):
        """What must agree for two records to be comparable."""
        gpus = tuple(gpu["name"] for gpu in self.hardware["gpus"])
        return self.hardware["cpu"], self.hardware["cores"], self.hardware["threads"], gpus

    @property
    def name(self):
        """The hardware in words: ``"AMD EPYC, 2 cores"``."""
        cpu, cores, threads, gpus = self.machine
        words = [f"{gpus.count(gpu)} x {gpu}" for gpu in dict.fromkeys(gpus)]
        words += [cpu, f"{cores} core{'s' * (cores != 1)}"]
        words += [f"{threads} thread{'s' * (threads != 1)}"] * (threads != cores)
        return ", ".join(words)

    @property
    def file_name(self):
        """The name of the record's file: date and hardware."""
        when = datetime.fromisoformat(self.date).strftime("%Y-%m-%d-%H%M")
        slug = re.sub(r"[^a-z0-9]+", "-", self.name.lower())[:100].strip("-")
        return f"{when}-{slug}.json"


def provenance():
    """Return the fields of a record that say how it came about: all but the rows."""
    return {
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "commit": _git("rev-parse", "HEAD") or "unknown",
        "modified": bool(_git("status", "--porcelain", "--untracked-files=no")),
        "load": round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else None,
        "hardware": _hardware(),
        "versions": _versions(),
    }


def _git(*arguments):
    """Return what git says of the repository; nothing where there is no git, or no repository."""
    command = ["git", "-C", str(ROOT), *arguments]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def _hardware():
    """Return what the times depend on, as far as the system says it."""
    gpus = [torch.cuda.get_device_properties(i) for i in range(torch.cuda.device_count())]
    pages = os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else None
    affinity = getattr(os, "sched_getaffinity", None)
    info = Path("/proc/cpuinfo")
    names = re.findall(r"^model name\s*: (.+)$", info.read_text() if info.exists() else "", re.M)
    return {
        "cpu": names[0].strip() if names else platform.processor() or platform.machine(),
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "cores": len(affinity(0)) if affinity else os.cpu_count(),
        "threads": torch.get_num_threads(),
        "memory": pages and pages * os.sysconf("SC_PAGE_SIZE"),
        "gpus": [{"name": gpu.name, "memory": gpu.total_memory} for gpu in gpus],
    }


def _versions():
    installed = {package.metadata["Name"]: package.version for package in metadata.distributions()}
    return {
        **{name: installed.get(name) for name in PACKAGES},
        "python": platform.python_version(),
        "cuda": torch.version.cuda,
        "cudnn": torch.backends.cudnn.version(),
        "system": f"{platform.system()} {platform.machine()}",
    }


def save(record, folder=FOLDER):
    """Write a record to its file, never in place of another; return the path."""
    rows = [row.to_dict() for row in record.rows]
    text = json.dumps({"format": FORMAT, **vars(record), "rows": rows}, indent=1, allow_nan=False)
    path = Path(folder) / record.file_name
    with path.open("x", encoding="utf-8") as file:
        file.write(text + "\n")
    return path


def read(path):
    """Return the record in a file."""
    data = json.loads(Path(path).read_text(encoding="utf-8"))
    if data.pop("format") != FORMAT:
        raise ValueError(f"{path} is not in the format {FORMAT!r}")
    return Record(**data | {"rows": [Row.from_dict(row) for row in data["rows"]]})


def read_all(folder=FOLDER):
    """Return the records of a folder, oldest first."""
    paths = Path(folder).glob("*.json")
    return sorted(map(read, paths), key=lambda record: record.date)


def spread(side, unit):
    """Write the median, and the range where there is one: ``"5.31 s (5.2 to 5.6)"``."""
    middle = quantity(side.median, unit).strip()
    if len(side.samples) == 1:
        return middle
    factor = 10 ** scale(side.median, unit)[0]  # the median's, so that the three can be compared
    return f"{middle} ({number(side.low / factor)} to {number(side.high / factor)})"


def slower(new, old):
    """Return a line per row that became worse than in an old record of the same hardware.

    Worse: its median moved to the bad side by more than either run's range (largest - smallest),
    and by more than `TOLERANCE` of the old median.
    """
    before = {row.key: row.ours for row in old.rows}
    found = []
    for row in new.rows:
        ours, past = row.ours, before.get(row.key, row.ours)
        change = ours.median - past.median
        worse = -change if row.higher_is_better else change
        if worse > max(ours.high - ours.low, past.high - past.low, TOLERANCE * past.median):
            was, now = spread(past, row.unit), spread(ours, row.unit)
            share = f"{change / past.median:+.0%}"
            found.append(f"{' / '.join(row.key)}: was {was}, now {now} ({share})")
    return found
