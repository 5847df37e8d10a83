"""The GPU and link that are simulated when none is named.

The default is a GPU that people rent today, on the board it is rented with, for which measurements
have been published: an A100 with NVLink and NVSwitch. `set_default_gpu` changes it.
"""

from simgpu.hardware.link import Link
from simgpu.hardware.presets import find_gpu, find_link
from simgpu.hardware.specs import GPU

# The link that machines with this GPU usually have.
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
    """Choose the GPU and link that are simulated from now on when none is named.

    As the first line of a notebook, it makes every cell simulate this GPU unless the cell names
    another. GPUs that are already simulated do not change.

    Parameters
    ----------
    gpu : str or GPU
        Name of a preset (`simgpu.GPUS`) or a spec.
    link : str or Link, optional
        Name of a preset (`simgpu.LINKS`) or a spec; by default the link that machines with this
        GPU usually have (NVLink 3 if `gpu` is not a preset).

    Raises
    ------
    ValueError
        If there is no such preset; the default is then unchanged.
    """
    new = dict(zip(("gpu", "link"), find_gpu_and_link(gpu, link), strict=True))
    _default.update(new)


def find_gpu_and_link(gpu=None, link=None) -> tuple[GPU, Link]:
    """Return the specs of a GPU and a link, each given by name or as a spec; None: the default.

    Raises
    ------
    ValueError
        If there is no such preset; the message lists the presets.

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
