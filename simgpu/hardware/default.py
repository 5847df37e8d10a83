"""Which GPU and link are simulated where nobody names them.

The default is a GPU that people rent today, on the board that they rent it with, for which
measurements have been published: an A100 with NVLink and NVSwitch. `set_default_gpu` changes it.
"""

from simgpu.hardware.link import Link
from simgpu.hardware.presets import find_gpu, find_link
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
    gpu : str or GPU
        Name of a preset (`simgpu.GPUS`) or a spec.
    link : str or Link, optional
        Name of a preset (`simgpu.LINKS`) or a spec; by default the one with which machines
        with this GPU usually come (for a spec that is no preset's: NVLink 3).

    Raises
    ------
    ValueError
        If there is no such preset; the default stays what it was.
    """
    new = dict(zip(("gpu", "link"), find_gpu_and_link(gpu, link), strict=True))
    _default.update(new)


def find_gpu_and_link(gpu=None, link=None) -> tuple[GPU, Link]:
    """Return the specs of a GPU and a link that are named, or left open, or given as specs.

    Raises
    ------
    ValueError
        If there is no such preset; the message lists those there are.

    Examples
    --------
    >>> [spec.name for spec in find_gpu_and_link("rtx4090")]
    ['rtx4090', 'pcie4_staged']
    """
    usual = _default["link"]
    if gpu is not None:
        gpu = find_gpu(gpu)
        usual = _USUAL_LINK.get(gpu.name, _USUAL_LINK[_FIRST])
    return gpu or _default["gpu"], find_link(usual if link is None else link)
