"""Choose the device type and the communication backend, the same on all ranks."""

import json
from dataclasses import asdict, dataclass

import torch
import torch.distributed as dist

from d2lmini.devices import usable_gpus


@dataclass(frozen=True)
class Offer:
    """The device that one process could use.

    Attributes
    ----------
    asked : {"auto", "cuda", "cpu"}
        What the user asked for.
    index : int or None
        Index of the GPU that it would use, among those it sees; None if it can use none.
    gpu : str or None
        UUID of that GPU.
    problem : str or None
        What is wrong with GPUs that are present but cannot be used.
    has_nccl : bool
        Whether this PyTorch was built with NCCL.
    """

    asked: str
    index: int | None = None
    gpu: str | None = None
    problem: str | None = None
    has_nccl: bool = True


def make_offer(asked, local_rank):
    """Find this process's GPU.

    Usually each process sees all GPUs of its machine, and uses the one with its local rank. On some
    clusters each process sees only its own, with index 0.

    Raises
    ------
    ValueError
        If `asked` is not "auto", "cuda" or "cpu".
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
    """Return the offers of all ranks, in rank order.

    Environment variables do not tell whether two processes share a GPU, only what each of them
    sees; and processes on several machines must all make the same choice.
    """
    store.set(f"offer/{rank}", json.dumps(asdict(offer)))
    offers = [Offer(**json.loads(store.get(f"offer/{r}"))) for r in range(world_size)]
    store.set(f"heard/{rank}", "")
    if rank == 0:  # it may host the store, and must not exit before all have read
        store.wait([f"heard/{r}" for r in range(world_size)])
    return offers


def choose_backend(offers):
    """Choose the backend and the device type.

    GPUs with NCCL if each process has its own GPU and NCCL is available, else CPUs with gloo. gloo
    is not used for GPUs: on Windows, which has no NCCL, its allreduce of tensors on GPUs crashes
    the process (PyTorch issue 186535).

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
        If "cuda" was asked for but cannot be used.

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
    """Return why the processes cannot use GPUs, or None, and the beginning of a remedy."""
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
