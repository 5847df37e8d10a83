"""A GPU in a file, measured by ``simgpu calibrate`` or written by hand.

A path that ends in ``.json`` can stand wherever a preset's name can:
``simgpu.configure(8, gpu="mine.json")``, ``simgpu run --gpu mine.json``. The file has these keys,
the first two always:

``format``
    ``"simgpu GPU 1"``.
``gpu``
    Fields of `simgpu.GPU`. Needed: ``name``; ``flops``, FLOP/s for each of ``float64``,
    ``float32``, ``tf32``, ``bfloat16``, ``float16`` (and ``float8``, if there is such arithmetic);
    ``memory_bandwidth``, bytes/s; ``memory``, bytes. Optional: ``launch_overhead`` and
    ``kernel_overhead``, seconds; ``compute_efficiency``, ``memory_efficiency`` and
    ``matmul_efficiency``, shares of the peaks in (0, 1]; ``multiprocessors``, how many;
    ``sources``, where each number comes from.
``link``
    Name of a preset (`simgpu.LINKS`), with which machines with this GPU come.
``copies``
    What copies between this GPU and its host reach, whatever the link: any of ``bandwidth`` (pinned
    memory), ``pageable_bandwidth`` (ordinary memory, to the GPU), ``pageable_to_host``, bytes/s;
    ``latency``, seconds.
``measured``
    How the numbers came about. Not read.

A GPU that nobody can buy yet::

    {
     "format": "simgpu GPU 1",
     "gpu": {
      "name": "next",
      "flops": {"float64": 4e13, "float32": 8e13, "tf32": 2e15, "bfloat16": 4e15, "float16": 4e15},
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

from simgpu.hardware.specs import GPU

FORMAT = "simgpu GPU 1"
KEYS = ("format", "gpu", "link", "copies", "measured")
COPIES = ("bandwidth", "pageable_bandwidth", "pageable_to_host", "latency")
BY_HAND = "help('simgpu.hardware.gpu_file') says how to write a GPU's file by hand"
_FIELDS = [f.name for f in fields(GPU)]
_NEEDED = [f.name for f in fields(GPU) if f.default is f.default_factory is MISSING]


def is_gpu_file(gpu) -> bool:
    """Whether what should be a GPU is the path of a file."""
    return isinstance(gpu, (str, PathLike)) and str(gpu).endswith(".json")


def write(path, gpu, **more) -> None:
    """Write a GPU, and the file's other keys, as JSON."""
    record = {"format": FORMAT, "gpu": asdict(gpu), **more}
    Path(path).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def read(path, links) -> tuple:
    """Return what a file says: a `GPU`, its `Link` or None, and a dict of its copies.

    Parameters
    ----------
    path : str or path-like
    links : dict of str to Link
        Those whose names the file may give.

    Raises
    ------
    ValueError
        If there is no such file, or something in it is missing, unknown or bad.
    """
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}; {BY_HAND}") from error
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not JSON: {error}; {BY_HAND}") from error
    try:
        return _parse(data, links)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def _parse(data, links):
    if isinstance(data, dict) and data.get("format") != FORMAT:
        raise ValueError(f"format is {data.get('format')!r}; this version reads {FORMAT!r} alone")
    _check_keys("the file", data, KEYS[:2], KEYS)
    _check_keys("gpu", data["gpu"], _NEEDED, _FIELDS)
    _check_keys("gpu's sources", data["gpu"].get("sources", {}))
    gpu, link, copies = GPU(**data["gpu"]), data.get("link"), data.get("copies", {})
    if not (link is None or (isinstance(link, str) and link in links)):
        raise ValueError(f"link is {link!r}; give one of {', '.join(links)}")
    _check_keys("copies", copies, known=COPIES)
    replace(next(iter(links.values())), name="copies", **copies)  # refuses bad numbers
    return gpu, links.get(link), copies


def _check_keys(what, data, needed=(), known=None):
    """Refuse what is no object, or has not the right keys."""
    if not isinstance(data, dict):
        raise ValueError(f"{what} is {str(data)[:50]!r}; give an object, {{...}}")
    missing = [key for key in needed if key not in data]
    unknown = [key for key in data if known is not None and key not in known]
    if missing:
        raise ValueError(f"{what} lacks {', '.join(missing)}; {BY_HAND}")
    if unknown:
        raise ValueError(f"{what} has {', '.join(unknown)}; known are {', '.join(known)}")
