"""Where and with what a run was made."""

import os
import platform
import subprocess
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path

import torch

ROOT = Path(__file__).parents[1]
PACKAGES = ("torch", "torchvision", "numpy", "d2l", "d2lmini")


def describe():
    """Return the fields of a record that say how it came about, but for the rows."""
    return {
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        **_commit(),
        "load": round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else None,
        "hardware": hardware(),
        "versions": versions(),
    }


def hardware():
    """Return what the times depend on."""
    gpus = [torch.cuda.get_device_properties(i) for i in range(torch.cuda.device_count())]
    return {
        "cpu": _cpu(),
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "cores": len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count(),
        "threads": torch.get_num_threads(),
        "memory": _memory(),
        "gpus": [{"name": gpu.name, "memory": gpu.total_memory} for gpu in gpus],
    }


def versions():
    """Return the versions of what took part."""
    found = {name: _version(name) for name in PACKAGES}
    found |= {"python": platform.python_version(), "cuda": torch.version.cuda}
    if torch.cuda.is_available():
        found["cudnn"] = str(torch.backends.cudnn.version())
    return found | {"system": f"{platform.system()} {platform.machine()}"}


def _version(package):
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _cpu():
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def _memory():
    """Return the bytes of the machine; None where Python cannot say, as on Windows."""
    if not hasattr(os, "sysconf"):
        return None
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _commit():
    """Return which commit's files run here, and whether they were changed."""
    command = ["git", "-C", str(ROOT)]
    how = {"capture_output": True, "text": True, "check": True}
    try:
        commit = subprocess.run([*command, "rev-parse", "HEAD"], **how).stdout.strip()
        changes = [*command, "status", "--porcelain", "--untracked-files=no"]
        return {"commit": commit, "modified": bool(subprocess.run(changes, **how).stdout)}
    except (OSError, subprocess.CalledProcessError) as error:
        commit = os.environ.get("D2LMINI_COMMIT")
        if not commit:
            raise ValueError(
                "git does not say which commit this is; set D2LMINI_COMMIT to its 40 digits"
            ) from error
        return {"commit": commit, "modified": False}
