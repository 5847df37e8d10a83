"""Calibration: the numbers of a real GPU and its link, measured instead of assumed.

`calibrate` measures (``stopwatch.py``) and fits; `from_calibration` reads the result back,
for ``sim.configure(k, gpu=..., link=...)``. A calibrated `GPU` holds *achieved* rates, with both
efficiencies 1.
"""

import dataclasses
import datetime
import json
import platform
import statistics
from dataclasses import dataclass
from pathlib import Path

import torch
from torch.utils import collect_env

from simgpu.calibration import stopwatch
from simgpu.hardware.link import Link
from simgpu.hardware.specs import GPU
from simgpu.hardware.validation import DTYPES

FORMAT = "d2lmini calibration 1"


@dataclass(frozen=True)
class Calibration:
    """A measured GPU and link, and how they were measured.

    Attributes
    ----------
    gpu : GPU
        Achieved rates and overheads.
    link : Link
        Achieved rates and latency of copies.
    provenance : dict
        Hardware, driver, versions, date, repetitions.
    measurements : list of dict
        As `simgpu.calibration.stopwatch.measure` returns them.
    """

    gpu: GPU
    link: Link
    provenance: dict
    measurements: list

    def save(self, path, **more):
        """Write all this as JSON, and what else there is to say as further fields."""
        record = {"format": FORMAT, **dataclasses.asdict(self), **more}
        Path(path).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def calibrate(device="cuda", repeats=7):
    """Measure a real GPU and return what the simulator needs to stand in for it.

    Takes less than a minute. Nothing else should run on the GPU or its host meanwhile.

    Parameters
    ----------
    device : torch.device or str
        A CUDA device; default the current one.
    repeats : int
        Repetitions of every measurement, at least 3; the median counts.

    Returns
    -------
    Calibration
        Save it with ``.save(path)``; use it with `from_calibration`.

    Raises
    ------
    ValueError
        If `device` is no CUDA device, or this machine has none, or `repeats` is below 3.

    Examples
    --------
    >>> import torch
    >>> if torch.cuda.is_available():
    ...     calibration = calibrate("cuda:0")
    ...     calibration.save("my-gpu.json")
    """
    device = torch.device(device)
    if device.type != "cuda" or not torch.cuda.is_available():
        found = "which has one" if torch.cuda.is_available() else "and this machine has none"
        raise ValueError(
            f"only a CUDA device can be calibrated, {found}; got {device}. On a machine with a "
            "GPU: python benchmarks/calibrate.py --out records/calibration-NAME.json"
        )
    if not isinstance(repeats, int) or isinstance(repeats, bool) or repeats < 3:
        raise ValueError(f"repeats is {repeats!r}; give a whole number of at least 3")
    with torch.cuda.device(device):
        device = torch.device("cuda", torch.cuda.current_device())
        others = [torch.device("cuda", i) for i in range(torch.cuda.device_count())]
        peers = [d for d in others if d != device and torch.cuda.can_device_access_peer(device, d)]
        rows = stopwatch.measure(
            device, stopwatch.cuda_runtime(device), repeats, peer=peers[0] if peers else None
        )
    memory = torch.cuda.get_device_properties(device).total_memory
    return fit(rows, memory, _provenance(device, repeats))


def _provenance(device, repeats):
    """Return what a reader needs to judge and repeat the measurements."""
    return {
        "hardware": torch.cuda.get_device_name(device),
        "driver": collect_env.get_nvidia_driver_version(collect_env.run),
        "cuda": torch.version.cuda,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "host": platform.processor() or platform.machine(),
        "date": datetime.date.today().isoformat(),
        "repeats": repeats,
    }


def fit(measurements, memory, provenance):
    """Turn what `stopwatch.measure` returned into a `Calibration`; pure arithmetic.

    `memory` is the capacity in bytes; ``"hardware"`` and ``"date"`` of `provenance` are named as
    the numbers' source.
    """
    rows = {row["what"]: row for row in measurements}
    name = f"{provenance['hardware']} (measured)"
    source = f"measured on {provenance['hardware']}, {provenance['date']}"
    launch, kernel = (rows[what]["median"] / rows[what]["amount"] for what in ("launch", "kernel"))
    # The host saw a small copy from its launch to its end; the simulator charges launches apart.
    latency = max(0.0, rows["small copy"]["median"] - launch)

    def rate(what, overhead):
        return rows[what]["amount"] / max(rows[what]["median"] - overhead, 1e-9)

    flops = {d: rate(f"product {d}", kernel) for d in DTYPES if f"product {d}" in rows}
    missing = [dtype for dtype in DTYPES if dtype not in flops]
    gpu = GPU(
        name=name,
        flops={dtype: flops.get(dtype, flops["float32"]) for dtype in DTYPES},
        memory_bandwidth=rate("memory", kernel),
        memory=memory,
        launch_overhead=launch,
        kernel_overhead=kernel,
        compute_efficiency=1.0,
        memory_efficiency=1.0,
        sources={
            "all": f"{source}; the rates are achieved ones, so that both efficiencies are 1",
            **{f"flops.{dtype}": "float32's: the device has no such products" for dtype in missing},
        },
    )
    pinned = statistics.mean(rate(f"pinned {way}", latency) for way in ("to device", "to host"))
    link = Link(
        name=f"host of {name}",
        bandwidth=pinned,
        # The host's clock saw these copies from their launch on.
        pageable_bandwidth=rate("pageable to device", launch + latency),
        pageable_to_host=rate("pageable to host", launch + latency),
        latency=latency,
        peer="peer" in rows,
        peer_bandwidth=rate("peer", latency) if "peer" in rows else pinned,
        peer_latency=latency,
        sources={
            "all": f"{source}; bandwidth is the mean of both directions",
            "peer": source if "peer" in rows else "no GPU within direct reach: copies are staged",
            "peer_latency": "as latency",
        },
    )
    return Calibration(gpu, link, provenance, measurements)


def from_calibration(source):
    """Return the GPU and the link of a calibration, for ``sim.configure(k, gpu=..., link=...)``.

    Parameters
    ----------
    source : str, path-like or Calibration
        A file that `Calibration.save` or ``benchmarks/calibrate.py`` wrote, or what `calibrate`
        returned.

    Returns
    -------
    gpu : GPU
    link : Link

    Raises
    ------
    ValueError
        If the file is none of a calibration, or one of its fields is missing, unknown or bad.

    Examples
    --------
    >>> import torch
    >>> if torch.cuda.is_available():
    ...     gpu, link = from_calibration(calibrate())
    """
    if isinstance(source, Calibration):
        return source.gpu, source.link
    try:
        data = json.loads(Path(source).read_text(encoding="utf-8"))
        if data["format"] != FORMAT:
            raise ValueError(f"its format is {data['format']!r}, not {FORMAT!r}")
        return GPU(**data["gpu"]), Link(**data["link"])
    except (KeyError, RecursionError, TypeError, ValueError) as error:
        raise ValueError(f"{source} is no file of sim.calibrate: {error}") from error
