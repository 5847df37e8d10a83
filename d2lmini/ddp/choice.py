"""Choose what computes and what carries the messages, the same on all ranks."""

import json
from dataclasses import asdict, dataclass

import torch
import torch.distributed as dist

from d2lmini.devices import usable_gpus


@dataclass(frozen=True)
class Offer:
    """What one process could compute on.

    Attributes
    ----------
    asked : {"auto", "cuda", "cpu"}
        What its user wants.
    index : int or None
        Number of the GPU that it would take, as it sees them; None if it can use none.
    gpu : str or None
        Identifies that GPU on every machine.
    problem : str or None
        What is wrong with GPUs that are there but cannot be used.
    has_nccl : bool
        Whether this PyTorch was built with NCCL.
    """

    asked: str
    index: int | None = None
    gpu: str | None = None
    problem: str | None = None
    has_nccl: bool = True


def make_offer(asked, local_rank):
    """Look for this process's GPU.

    Usually each process sees all GPUs of its machine, and takes the one of its own number. Some
    clusters show each process only its own: that one is number 0.

    Raises
    ------
    ValueError
        If `asked` is none of "auto", "cuda" and "cpu".
    """
    if asked not in ("auto", "cuda", "cpu"):
        raise ValueError(f"device is {asked!r}; choose 'auto', 'cuda' or 'cpu'")
    count, problem = (0, None) if asked == "cpu" else usable_gpus()
    if count == 0:
        return Offer(asked, problem=problem)
    index = local_rank % count
    gpu = str(torch.cuda.get_device_properties(index).uuid)
    return Offer(asked, index, gpu, problem, dist.is_nccl_available())


def exchange(offer, store, rank, world_size):
    """Return the offers of all ranks, in their order.

    Whether two processes share a GPU cannot be said from their variables, only from what each
    sees; and on several machines all have to choose the same.
    """
    store.set(f"offer/{rank}", json.dumps(asdict(offer)))
    offers = [Offer(**json.loads(store.get(f"offer/{r}"))) for r in range(world_size)]
    store.set(f"heard/{rank}", "")
    if rank == 0:  # it may hold the store, and must not leave before all have read
        store.wait([f"heard/{r}" for r in range(world_size)])
    return offers


def choose_backend(offers):
    """Choose what computes and what carries the messages.

    GPUs if each process has its own and NCCL is there. gloo is left to CPUs: on Windows, which has
    no NCCL, its allreduce of tensors on GPUs ends the process (PyTorch issue 186535).

    Parameters
    ----------
    offers : list of Offer
        Of all ranks.

    Returns
    -------
    backend, device_type, reason : str

    Raises
    ------
    ValueError
        If "cuda" was asked for and cannot be had.

    Examples
    --------
    >>> choose_backend([Offer("auto", 0, "GPU-5d"), Offer("auto", 0, "GPU-5d")])
    ('gloo', 'cpu', '2 processes but 1 GPU: NCCL needs one GPU per process')
    """
    asked = {offer.asked for offer in offers}
    if "cpu" in asked:
        return "gloo", "cpu", "the CPU was asked for"
    obstacle, remedy = _obstacle(offers)
    if obstacle is None:
        counts = f"{_count(len(offers), 'process', 'es')} and {_count(len(offers), 'GPU')}"
        return "nccl", "cuda", f"{counts}: each has its own"
    if "cuda" in asked:
        raise ValueError(f"{obstacle}; {remedy}take the device 'cpu'")
    return "gloo", "cpu", obstacle


def _obstacle(offers):
    """Return why the processes cannot compute on GPUs, or None, and what can be done."""
    num_gpus = len({offer.gpu for offer in offers} - {None})
    problems = [offer.problem for offer in offers if offer.problem]
    if num_gpus < len(offers) and problems:
        return problems[0], "or "
    if num_gpus == 0:
        return "this machine has no GPU", ""
    if num_gpus < len(offers):
        counts = f"{_count(len(offers), 'process', 'es')} but {_count(num_gpus, 'GPU')}"
        return f"{counts}: NCCL needs one GPU per process", "lower --nproc-per-node or "
    if not all(offer.has_nccl for offer in offers):
        return "this PyTorch was built without NCCL, which connects GPUs", "on Windows use WSL, or "
    return None, ""


def _count(number, noun, plural="s"):
    return f"{number} {noun}{plural if number != 1 else ''}"
