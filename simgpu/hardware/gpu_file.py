"""A GPU in a file, measured by ``simgpu calibrate`` or written by hand.

A path that ends in ``.json`` can be used like a preset's name:
``simgpu.configure(8, gpu="mine.json")``, ``simgpu run --gpu mine.json``. The file has these keys,
of which the first two are required:

``format``
    ``"simgpu GPU 1"``.
``gpu``
    Fields of `simgpu.GPU`. Required: ``name``; ``flops``, FLOP/s for each of ``float32``,
    ``tf32``, ``bfloat16``, ``float16`` (and ``float64``, ``float8`` and ``int8``, if the GPU has
    units for them and their rate is known; of GeForce cards, those with float32 sums);
    ``memory_bandwidth``, bytes/s; ``memory``, bytes. Optional: ``launch_overhead``,
    ``backward_launch_overhead``, ``kernel_overhead`` and ``collective_launch_overhead``, seconds;
    ``compute_efficiency``, ``memory_efficiency`` and ``matmul_efficiency``, shares of the peaks in
    (0, 1]; ``multiprocessors``, their number; ``sources``, where each number comes from.
``link``
    The link that machines with this GPU have: a preset's name (`simgpu.LINKS`) or a rate, and
    settings, as `simgpu.hardware.links` describes them, such as ``"25GB/s"`` and
    ``"pcie4:x8:p2p"``.
``copies``
    Rates of copies between this GPU and its host, for any link: any of ``bandwidth`` (pinned
    memory), ``pageable_bandwidth`` (pageable memory, to the GPU), ``pageable_to_host``, bytes/s;
    ``latency``, seconds.
``measured``
    How the numbers were measured. Ignored.

A hypothetical GPU::

    {
     "format": "simgpu GPU 1",
     "gpu": {
      "name": "next",
      "flops": {"float32": 8e13, "tf32": 2e15, "bfloat16": 4e15, "float16": 4e15},
      "memory_bandwidth": 1.3e13,
      "memory": 309237645312
     },
     "link": "nvlink5"
    }
"""

import json
from dataclasses import MISSING, asdict, fields, replace
from os import PathLike
from pathlib import Path

from simgpu.hardware.links import LINKS, find_link
from simgpu.hardware.specs import GPU

FORMAT = "simgpu GPU 1"
KEYS = ("format", "gpu", "link", "copies", "measured")
COPIES = ("bandwidth", "pageable_bandwidth", "pageable_to_host", "latency")
LIMITS = {  # no GPU is near them
    "memory": (1e6, 1e16, "bytes"), "memory_bandwidth": (1e6, 1e18, "bytes/s"),
    "flops": (1e6, 1e21, "FLOP/s"),
}  # fmt: skip
BY_HAND = "help('simgpu.hardware.gpu_file') says how to write a GPU's file by hand"
_FIELDS = [f.name for f in fields(GPU)]
_NEEDED = [f.name for f in fields(GPU) if f.default is f.default_factory is MISSING]


def is_gpu_file(gpu) -> bool:
    """Return whether `gpu` is the path of a GPU's file."""
    return isinstance(gpu, (str, PathLike)) and str(gpu).endswith(".json")


def write(path, gpu, **more) -> None:
    """Write a GPU, and the file's other keys, as JSON."""
    record = {"format": FORMAT, "gpu": asdict(gpu), **more}
    Path(path).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def read(path) -> tuple:
    """Return the content of a file: a `GPU`, its `Link` or None, and the dict of its copies.

    Parameters
    ----------
    path : str or path-like

    Raises
    ------
    ValueError
        If there is no such file, or something in it is missing, unknown or invalid.
    """
    data = load(path, BY_HAND)
    try:
        return _parse(data)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def load(path, remedy):
    """Return the content of a JSON file; raise ValueError, with the remedy, if it has none."""
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}; {remedy}") from error
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not JSON: {error}; {remedy}") from error


def _parse(data):
    if isinstance(data, dict) and data.get("format") != FORMAT:
        raise ValueError(f"format is {data.get('format')!r}; this version reads {FORMAT!r} alone")
    _check_keys("the file", data, KEYS[:2], KEYS)
    _check_keys("gpu", data["gpu"], _NEEDED, _FIELDS)
    _check_keys("gpu's sources", data["gpu"].get("sources", {}))
    gpu, link, copies = GPU(**data["gpu"]), data.get("link"), data.get("copies", {})
    _check_plausible(gpu)
    _check_keys("copies", copies, known=COPIES)
    replace(LINKS["pcie4"], name="copies", **copies)  # rejects invalid numbers
    return gpu, link if link is None else find_link(link), copies


def _check_plausible(gpu):
    """Refuse numbers in another unit, such as gigabytes."""
    numbers = {"memory": gpu.memory, "memory_bandwidth": gpu.memory_bandwidth}
    numbers |= {f"flops of {dtype}": peak for dtype, peak in gpu.flops.items()}
    for name, value in numbers.items():
        low, high, unit = LIMITS[name.partition(" ")[0]]
        if not low <= value <= high:
            raise ValueError(
                f"{name} is {value:g} {unit}, and no GPU's; give {low:g} to {high:g} {unit}"
            )


def _check_keys(what, data, needed=(), known=None):
    """Raise ValueError unless `data` is a dict with the needed keys and no unknown ones."""
    if not isinstance(data, dict):
        raise ValueError(f"{what} is {str(data)[:50]!r}; give an object, {{...}}")
    missing = [key for key in needed if key not in data]
    unknown = [key for key in data if known is not None and key not in known]
    if missing:
        raise ValueError(f"{what} lacks {', '.join(missing)}; {BY_HAND}")
    if unknown:
        raise ValueError(f"{what} has {', '.join(unknown)}; known are {', '.join(known)}")
