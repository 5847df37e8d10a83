"""Where a run of ``make bench`` was made: hardware, versions, commit, date."""

import os
import platform
import re
import subprocess
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path

import torch

ROOT = Path(__file__).parents[1]
PARTS = ("cores", "threads")
PACKAGES = ("torch", "torchvision", "numpy", "d2l", "d2lmini")


def provenance():
    """Return what the times of a run depend on, and when and from which files it was made."""
    return {
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "commit": _git("rev-parse", "HEAD") or "unknown",
        "modified": bool(_git("status", "--porcelain", "--untracked-files=no")),
        "load": round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else None,
        "hardware": _hardware(),
        "versions": _versions(),
    }


def describe(found):
    """Write the hardware in one line, and versions, commit and date in a second one."""
    hardware, versions = found["hardware"], found["versions"]
    gpus = [gpu["name"] for gpu in hardware["gpus"]]
    words = [f"{gpus.count(gpu)} x {gpu}" for gpu in dict.fromkeys(gpus)]
    words.append(hardware["cpu"])
    words += [f"{hardware[name]} {name[:-1]}{'s' * (hardware[name] != 1)}" for name in PARTS]
    about = [f"{name} {version}" for name, version in versions.items() if version]
    about.append(f"commit {found['commit'][:10]}{' with changes' * found['modified']}")
    about.append(f"{found['date'][:16].replace('T', ' ')} UTC")
    return f"{', '.join(words)}\n{'; '.join(about)}"


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
