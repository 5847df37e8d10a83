"""Values of all ranks, made one."""

import hashlib

import torch
import torch.distributed as dist


def sum_over_ranks(values, device="cpu"):
    """Add numbers up over the ranks; every rank gets the sums.

    Parameters
    ----------
    values : sequence of float
        Equally many on every rank; whole numbers stay exact up to 2**53.
    device : torch.device
        Where the backend expects its tensors: this rank's device.

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
    """Return when every rank has called it.

    `torch.distributed.barrier` does the same, but first asks PyTorch for the kind of accelerator,
    a question that fails once the simulated GPUs of this package are registered.
    """
    dist.all_gather_object([None] * dist.get_world_size(), None)


@torch.no_grad()
def average_buffers(model):
    """Replace every floating-point buffer by its mean over the ranks.

    Each rank's batch normalisation collects running statistics of the images that this rank saw.
    `DistributedDataParallel` by itself hands rank 0's to all and so throws the others' away. The
    mean uses all images: for the running means it is what one process would have got from the
    whole batches (for shares of equal size); for the running variances it lacks the variance
    between the ranks' means, which is small as long as a share is not.

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
    """Return 16 hexadecimal digits that change with any bit of the tensors.

    Parameters
    ----------
    tensors : dict of str to torch.Tensor
        A `state_dict`, for instance.

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
    """Refuse to go on where the ranks hold different values.

    Parameters
    ----------
    what : str
        Name of the value in the message.
    value : object
        Compared with ``==``; small, since every rank gets everybody's.
    remedy : str
        What the reader of the message should do.

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
