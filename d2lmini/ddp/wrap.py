"""Wrap a network for data-parallel training, after checking that it is ready."""

import inspect

from torch import nn
from torch.nn.parallel import DistributedDataParallel

# PyTorch 2.13 renamed the option and warns about the old name; 2.11 has only the old one.
_OPTIONS = inspect.signature(DistributedDataParallel).parameters
_NO_BUFFER_SYNC = {
    ("forward_sync_buffers" if "forward_sync_buffers" in _OPTIONS else "broadcast_buffers"): False
}


def wrap_model(net, device):
    """Return the network in a `DistributedDataParallel` that does not synchronise buffers.

    Every backward pass then also averages the gradients over the ranks. Buffers, such as the
    running statistics of batch normalisation, differ between ranks until `average_buffers`; by
    default every step would overwrite them with those of rank 0.

    Parameters
    ----------
    net : nn.Module
        Already on `device`.
    device : torch.device
        Device of this rank.

    Returns
    -------
    DistributedDataParallel
        `net` itself is its ``.module``.

    Raises
    ------
    ValueError
        If a parameter or buffer is on another device, or a `SyncBatchNorm` is on a CPU.
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
