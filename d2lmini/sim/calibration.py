"""Calibration: the numbers of a real GPU and its link, measured instead of assumed.

`calibrate` measures (`d2lmini.sim.measuring`) and fits; `from_calibration` reads the result back,
for ``sim.configure(k, gpu=..., link=...)``. The fit is arithmetic on lists of seconds, so it can
be checked without a GPU.

A calibrated `GPU` holds *achieved* rates, with both efficiencies 1.
"""

import dataclasses
import json
import statistics
from dataclasses import dataclass
from pathlib import Path

import torch

from d2lmini.sim import measuring
from d2lmini.sim.specs import DTYPES, GPU, Link

FORMAT = "d2lmini calibration 1"
# A rate that rounding or noise would make infinite.
_SHORTEST = 1e-9


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
        One a measurement: ``what``, ``amount`` (FLOPs, bytes or operations), ``seconds`` (one
        value a repetition).
    """

    gpu: GPU
    link: Link
    provenance: dict
    measurements: list

    def spread(self):
        """Return ``{what: (max - min) / median}`` of the repetitions of every measurement."""
        return {row["what"]: _spread(row["seconds"]) for row in self.measurements}

    def to_dict(self):
        """Return plain dicts, lists, strings and numbers, ready for JSON."""
        rows = [
            {**row, "median": statistics.median(row["seconds"]), "spread": _spread(row["seconds"])}
            for row in self.measurements
        ]
        return {
            "format": FORMAT,
            "gpu": dataclasses.asdict(self.gpu),
            "link": dataclasses.asdict(self.link),
            "provenance": dict(self.provenance),
            "measurements": rows,
        }

    def save(self, path, **more):
        """Write `to_dict` as JSON, and what else there is to say as further fields."""
        text = json.dumps({**self.to_dict(), **more}, indent=1)
        Path(path).write_text(text + "\n", encoding="utf-8")


def calibrate(device="cuda", repeats=7):
    """Measure a real GPU and return what the simulator needs to stand in for it.

    Takes about a minute. Nothing else should run on the GPU or its host meanwhile.

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
    _check_repeats(repeats)
    device = torch.device(
        "cuda", torch.cuda.current_device() if device.index is None else device.index
    )
    properties = torch.cuda.get_device_properties(device)
    rows = measuring.measure(device, measuring.cuda_runtime(device), repeats)
    return fit(
        rows,
        name=f"{properties.name} (measured)",
        memory=properties.total_memory,
        provenance=measuring.provenance(device, repeats),
    )


def _check_repeats(repeats):
    if not isinstance(repeats, int) or isinstance(repeats, bool) or repeats < 3:
        raise ValueError(f"repeats is {repeats!r}; give a whole number of at least 3")


def fit(measurements, name, memory, provenance):
    """Turn timings into a `Calibration`; pure arithmetic.

    Parameters
    ----------
    measurements : list of dict
        As `d2lmini.sim.measuring.measure` returns them.
    name : str
        Name of the device.
    memory : int
        Capacity, bytes.
    provenance : dict
        Kept as it is; its ``"date"`` and ``"hardware"`` are named as the numbers' source.

    Raises
    ------
    ValueError
        If a measurement is missing, or a time is not positive.
    """
    rows = {row["what"]: row for row in measurements}
    for row in measurements:
        if not row["seconds"] or min(row["seconds"]) <= 0:
            raise ValueError(f"measurement {row['what']!r}: seconds are {row['seconds']}")
    source = f"measured on {provenance.get('hardware', name)}, {provenance.get('date', 'undated')}"
    launch = _each(rows, "launch")
    kernel = _each(rows, "kernel")
    rates, remarks = _product_rates(rows, kernel)
    gpu = GPU(
        name=name,
        flops=rates,
        memory_bandwidth=_rate(rows, "memory", kernel),
        memory=memory,
        launch_overhead=launch,
        kernel_overhead=kernel,
        compute_efficiency=1.0,
        memory_efficiency=1.0,
        sources={
            **{f"flops.{dtype}": remarks.get(dtype, source) for dtype in DTYPES},
            "memory_bandwidth": source,
            "memory": source,
            "launch_overhead": source,
            "kernel_overhead": source,
            "compute_efficiency": "1: the rates are achieved ones",
            "memory_efficiency": "1: the rates are achieved ones",
        },
    )
    return Calibration(gpu, _fit_link(rows, launch, name, source), dict(provenance), measurements)


def _fit_link(rows, launch, name, source):
    # The host's clock saw a small copy from its launch to its end; the simulator charges the
    # launch separately.
    latency = max(0.0, _median(rows, "small copy") - launch)
    pinned = [_rate(rows, f"pinned {way}", latency) for way in ("to device", "to host")]
    peer = "peer" in rows
    return Link(
        name=f"host of {name}",
        bandwidth=statistics.mean(pinned),
        # Blocking copies were timed by the host's clock, launch included.
        pageable_bandwidth=_rate(rows, "pageable to device", launch + latency),
        pageable_to_host=_rate(rows, "pageable to host", launch + latency),
        latency=latency,
        peer=peer,
        peer_bandwidth=_rate(rows, "peer", latency) if peer else statistics.mean(pinned),
        peer_latency=latency,
        sources={
            "bandwidth": f"{source}; mean of both directions",
            "pageable_bandwidth": source,
            "pageable_to_host": source,
            "latency": source,
            "peer": source if peer else "no second GPU with peer access: copies are staged",
            "peer_bandwidth": source if peer else "not measured: as bandwidth; unused",
            "peer_latency": "as latency",
        },
    )


def _row(rows, what):
    if what not in rows:
        raise ValueError(f"there is no measurement {what!r}; there are {', '.join(rows) or 'none'}")
    return rows[what]


def _median(rows, what):
    return statistics.median(_row(rows, what)["seconds"])


def _each(rows, what):
    """Seconds for one of the operations that a measurement counted."""
    return _median(rows, what) / rows[what]["amount"]


def _rate(rows, what, overhead):
    """Bytes or FLOPs per second once the overhead is taken off."""
    seconds = _median(rows, what)
    return rows[what]["amount"] / max(seconds - overhead, _SHORTEST)


def _product_rates(rows, kernel):
    """Median over the sizes of the achieved FLOP/s, for each dtype; remarks where there is none."""
    rates, remarks = {}, {}
    for dtype in DTYPES:
        of_dtype = [what for what in rows if what.startswith(f"product {dtype} ")]
        if of_dtype:
            rates[dtype] = statistics.median(_rate(rows, what, kernel) for what in of_dtype)
    if "float32" not in rates:
        raise ValueError("there is no measurement 'product float32 SIZE'; float32 is needed")
    for dtype in DTYPES:
        if dtype not in rates:
            rates[dtype] = rates["float32"]
            remarks[dtype] = "products of this dtype are not supported: float32's rate"
    return {dtype: rates[dtype] for dtype in DTYPES}, remarks


def _spread(seconds):
    return (max(seconds) - min(seconds)) / statistics.median(seconds)


def from_calibration(source):
    """Return the GPU and the link of a calibration, for ``sim.configure(k, gpu=..., link=...)``.

    Parameters
    ----------
    source : str, path-like, dict or Calibration
        A file that `Calibration.save` or ``benchmarks/calibrate.py`` wrote, or its content.

    Returns
    -------
    gpu : GPU
    link : Link

    Raises
    ------
    ValueError
        If the file is no JSON, or a field is missing, unknown or bad; the message names it.

    Examples
    --------
    >>> from_calibration({})
    Traceback (most recent call last):
        ...
    ValueError: ...
    """
    if isinstance(source, Calibration):
        return source.gpu, source.link
    label = "calibration"
    if not isinstance(source, dict):
        label = str(source)
        try:
            source = json.loads(Path(source).read_text(encoding="utf-8"))
        except json.JSONDecodeError as error:
            raise ValueError(f"{label} is no JSON ({error}); give a file of calibrate") from error
    if not isinstance(source, dict) or source.get("format") != FORMAT:
        found = source.get("format") if isinstance(source, dict) else type(source).__name__
        raise ValueError(f"{label}: field format is {found!r}; expected {FORMAT!r}")
    return _build(GPU, source, "gpu", label), _build(Link, source, "link", label)


def _build(kind, data, name, label):
    part = data.get(name)
    if not isinstance(part, dict):
        raise ValueError(f"{label}: field {name} is {part!r}; expected an object")
    known = {field.name: field for field in dataclasses.fields(kind)}
    for field in part:
        if field not in known:
            raise ValueError(f"{label}: field {name}.{field} is unknown; known: {', '.join(known)}")
    for field in known:
        if field not in part:
            raise ValueError(f"{label}: field {name}.{field} is missing")
    try:
        return kind(**part)
    except ValueError as error:
        raise ValueError(f"{label}: field {name}: {error}") from error
