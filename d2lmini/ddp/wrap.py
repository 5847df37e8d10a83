"""Wrap a network for data-parallel training, after a look at whether it is ready."""

import inspect

from torch import nn
from torch.nn.parallel import DistributedDataParallel

# PyTorch 2.13 renamed the option and warns of the old name; 2.11 knows only the old one.
_OPTIONS = inspect.signature(DistributedDataParallel).parameters
_NO_BUFFER_SYNC = {
    ("forward_sync_buffers" if "forward_sync_buffers" in _OPTIONS else "broadcast_buffers"): False
}


def wrap_model(net, device):
    """Return the network in a `DistributedDataParallel` that leaves the buffers alone.

    From then on, every backward pass also averages the gradients over the ranks. Buffers, the
    running statistics of batch normalisation, stay each rank's own until `average_buffers`;
    by default every step would overwrite them with rank 0's.

    Parameters
    ----------
    net : nn.Module
        Already on `device`.
    device : torch.device
        Where this rank computes.

    Returns
    -------
    DistributedDataParallel
        `net` itself is its ``.module``.

    Raises
    ------
    ValueError
        If a parameter or buffer is elsewhere, or the network has a `SyncBatchNorm` on a CPU.
    """
    for name, tensor in [*net.named_parameters(), *net.named_buffers()]:
        if tensor.device != device:
            raise ValueError(
                f"{name} is on {tensor.device}, this rank computes on {device}: call "
                f".to({str(device)!r}) before wrapping"
            )
    is_sync = any(isinstance(module, nn.SyncBatchNorm) for module in net.modules())
    if is_sync and device.type != "cuda":
        raise ValueError(
            f"SyncBatchNorm runs on CUDA devices only, not on {device}: take BatchNorm2d, "
            "whose statistics are of each rank's own images, or GroupNorm, which has none"
        )
    return DistributedDataParallel(net, **_NO_BUFFER_SYNC)
