"""Combine and compare values across ranks."""

import hashlib

import torch
import torch.distributed as dist


def sum_over_ranks(values, device="cpu"):
    """Sum numbers over ranks; every rank gets the sums.

    Parameters
    ----------
    values : sequence of float
        As many on every rank; integers are exact up to 2**53.
    device : torch.device
        Device of this rank, where the backend expects its tensors.

    Returns
    -------
    list of float

    Examples
    --------
    >>> from d2lmini.ddp import process_group
    >>> with process_group("cpu"):
    ...     sum_over_ranks([3, 4])
    [3.0, 4.0]
    """
    total = torch.tensor(values, dtype=torch.float64, device=device)
    dist.all_reduce(total)
    return total.tolist()


def wait_for_all_ranks():
    """Return once every rank has called it.

    `torch.distributed.barrier` does the same, but first asks PyTorch for the accelerator type,
    which fails once the simulated GPUs of this package are registered.
    """
    dist.all_gather_object([None] * dist.get_world_size(), None)


@torch.no_grad()
def average_buffers(model):
    """Replace every floating-point buffer by its mean over the ranks.

    Each rank's batch normalisation has running statistics of the images that this rank saw.
    `DistributedDataParallel` by default broadcasts those of rank 0 and discards the others. The
    mean uses all images: for the running means it is what one process would have computed from the
    whole batches (for shares of equal size); for the running variances it lacks the variance
    between the ranks' means, which is small unless shares are small.

    Parameters
    ----------
    model : nn.Module
        Changed in place.
    """
    for buffer in model.buffers():
        if buffer.is_floating_point():
            dist.all_reduce(buffer)
            buffer /= dist.get_world_size()


def fingerprint(tensors):
    """Return a hash of 16 hexadecimal digits that depends on every bit of the tensors.

    Parameters
    ----------
    tensors : dict of str to torch.Tensor
        For example a `state_dict`.

    Examples
    --------
    >>> fingerprint({"w": torch.zeros(2)}) == fingerprint({"w": torch.tensor([0.0, 1e-45])})
    False
    """
    digest = hashlib.sha256()
    for name, tensor in tensors.items():
        flat = tensor.detach().cpu().contiguous().reshape(-1)
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(flat.view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()[:16]


def check_equal_on_ranks(what, value, remedy):
    """Raise ValueError if the value differs between ranks.

    Parameters
    ----------
    what : str
        Name of the value in the message.
    value : object
        Compared with ``==``; small, since every rank receives the values of all ranks.
    remedy : str
        What the user should do; ends the message.

    Raises
    ------
    ValueError
        On every rank, naming the first rank that differs from rank 0.
    """
    values = [None] * dist.get_world_size()
    dist.all_gather_object(values, value)
    for rank, other in enumerate(values):
        if other != values[0]:
            raise ValueError(
                f"{what} differs between ranks: {values[0]} on rank 0, {other} on rank {rank}. "
                f"{remedy}"
            )
