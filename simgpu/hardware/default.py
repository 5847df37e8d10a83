"""The GPU and link that are simulated when none is named.

The default is a GPU that people rent today, on the board it is rented with, for which measurements
have been published: an A100 with NVLink and NVSwitch. `set_default_gpu` changes it.
"""

from dataclasses import replace

from simgpu.hardware import gpu_file
from simgpu.hardware.cards import CARDS
from simgpu.hardware.link import Link
from simgpu.hardware.links import find_link
from simgpu.hardware.presets import find_gpu
from simgpu.hardware.specs import GPU

_FIRST = "a100"
MAX_DEVICES = 128  # of a machine: PyTorch's highest device index is 127

_default = {"gpu": find_gpu(_FIRST), "link": find_link(CARDS[_FIRST].link)}


def set_default_gpu(gpu, link=None) -> None:
    """Choose the GPU and link that are simulated from now on when none is named.

    As the first line of a notebook, it makes every cell simulate this GPU unless the cell names
    another. GPUs that are already simulated do not change.

    Parameters
    ----------
    gpu : str, path-like or GPU
        Name of a preset (`simgpu.GPUS`), a file of `simgpu.calibrate` or a spec.
    link : str or Link, optional
        Name of a preset (`simgpu.LINKS`), a rate, either with settings (`simgpu.hardware.links`),
        or a spec; by default the link that machines with this GPU usually have (NVLink 3 if `gpu`
        is not a preset).

    Raises
    ------
    ValueError
        If there is no such preset or file; the default is then unchanged.
    """
    new = dict(zip(("gpu", "link"), find_gpu_and_link(gpu, link), strict=True))
    _default.update(new)


def find_gpu_and_link(gpu=None, link=None) -> tuple[GPU, Link]:
    """Return the specs of a GPU and a link, each given by name or as a spec; None: the default.

    A GPU's file may name its default link, and give rates of copies between GPU and host that
    override those of any link (`simgpu.hardware.gpu_file`).

    Raises
    ------
    ValueError
        If there is no such preset (the message lists the presets), or a file is not valid.

    Examples
    --------
    >>> [spec.name for spec in find_gpu_and_link("rtx4090")]
    ['rtx4090', 'pcie4_staged']
    """
    if gpu is None:
        return _default["gpu"], find_link(_default["link"] if link is None else link)
    usual, copies = None, {}
    if gpu_file.is_gpu_file(gpu):
        gpu, usual, copies = gpu_file.read(gpu)
    gpu = find_gpu(gpu)
    link = find_link((usual or usual_link(gpu.name)) if link is None else link)
    return gpu, replace(link, **copies) if copies else link


def usual_link(name) -> str:
    """Return the name of the link with which machines with a GPU of that name usually come."""
    return CARDS.get(name, CARDS[_FIRST]).link
