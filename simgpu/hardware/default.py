"""Which GPU and link are simulated where nobody names them.

The default is a GPU that people rent today, on the board that they rent it with, for which
measurements have been published: an A100 with NVLink and NVSwitch. `set_default_gpu` changes it.
"""

from dataclasses import replace

from simgpu.hardware import gpu_file
from simgpu.hardware.link import Link
from simgpu.hardware.presets import LINKS, find_gpu, find_link
from simgpu.hardware.specs import GPU

# With what machines that have this GPU usually come.
_USUAL_LINK = {
    "k80": "pcie3",
    "t4": "pcie3",
    "v100": "nvlink2",
    "a100": "nvlink3",
    "rtx4090": "pcie4_staged",
    "h100": "nvlink4",
    "h200": "nvlink4",
    "b200": "nvlink5",
}
_FIRST = "a100"

_default = {"gpu": find_gpu(_FIRST), "link": find_link(_USUAL_LINK[_FIRST])}


def set_default_gpu(gpu, link=None) -> None:
    """Choose what is simulated from now on where no GPU is named.

    One line at the top of a notebook: all that it simulates afterwards is this GPU, except where
    a cell names another. GPUs that are simulated already stay what they are.

    Parameters
    ----------
    gpu : str, path-like or GPU
        Name of a preset (`simgpu.GPUS`), a file of `simgpu.calibrate` or a spec.
    link : str or Link, optional
        Name of a preset (`simgpu.LINKS`) or a spec; by default the one with which machines
        with this GPU usually come (for a spec that is no preset's: NVLink 3).

    Raises
    ------
    ValueError
        If there is no such preset or file; the default stays what it was.
    """
    new = dict(zip(("gpu", "link"), find_gpu_and_link(gpu, link), strict=True))
    _default.update(new)


def find_gpu_and_link(gpu=None, link=None) -> tuple[GPU, Link]:
    """Return the specs of a GPU and a link that are named, or left open, or given as specs.

    A file of a GPU may name the link that is taken where `link` is left open, and say what copies
    between GPU and host reach on whatever link (`simgpu.hardware.gpu_file`).

    Raises
    ------
    ValueError
        If there is no such preset (the message lists those there are), or a file is none of a GPU.

    Examples
    --------
    >>> [spec.name for spec in find_gpu_and_link("rtx4090")]
    ['rtx4090', 'pcie4_staged']
    """
    if gpu is None:
        return _default["gpu"], find_link(_default["link"] if link is None else link)
    usual, copies = None, {}
    if gpu_file.is_gpu_file(gpu):
        gpu, usual, copies = gpu_file.read(gpu, LINKS)
    gpu = find_gpu(gpu)
    link = find_link((usual or usual_link(gpu.name)) if link is None else link)
    return gpu, replace(link, **copies) if copies else link


def usual_link(name) -> str:
    """Return the name of the link with which machines with a GPU of that name usually come."""
    return _USUAL_LINK.get(name, _USUAL_LINK[_FIRST])
