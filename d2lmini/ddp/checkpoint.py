"""Save a training job such that it can go on as if it had never stopped."""

import os
from pathlib import Path

import torch
import torch.distributed as dist

from d2lmini.ddp.collect import average_buffers, check_equal_on_ranks, wait_for_all_ranks


def save_checkpoint(path, model, optimizer, progress, config):
    """Write everything that the next step depends on. All ranks call it, rank 0 writes.

    The file at `path` is replaced in one go: whoever reads it, even after a crash in the middle of
    writing, finds the old state or the new one, whole.

    Parameters
    ----------
    path : str or Path
        Of the file, on storage that all machines see if there are several.
    model, optimizer
        Rank 0's stand for all: data-parallel training keeps weights and the optimiser's state
        equal, and the buffers are made so (`average_buffers`).
    progress : dict
        How far the training is; `load_checkpoint` returns it.
    config : dict
        What must not change between the parts of one run.
    """
    average_buffers(model)
    rngs = [None] * dist.get_world_size()
    dist.all_gather_object(rngs, _rng_state())  # the only state in which ranks differ
    if dist.get_rank() == 0:
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
        state |= {"progress": progress, "rngs": rngs, "config": config}
        _replace(Path(path), state)
    wait_for_all_ranks()  # nobody goes on before the state is safe


def begin_or_resume(path, resume, model, optimizer, config):
    """Load the checkpoint if there is one and it is wanted.

    Parameters
    ----------
    path : str or Path or None
        None: nothing is saved in this run.
    resume : bool
        Whether to go on from a file at `path`.
    model, optimizer, config
        See `load_checkpoint`.

    Returns
    -------
    dict or None
        The progress that was saved; None: begin at the beginning.

    Raises
    ------
    ValueError
        If there is a file which a new run would overwrite, or only some ranks see it; and what
        `load_checkpoint` raises.
    """
    if path is None:
        return None
    exists = Path(path).is_file()
    check_equal_on_ranks(f"whether {path} exists", exists, "Put it where all machines see it.")
    if not exists:
        return None
    if not resume:
        raise ValueError(f"{path} exists: give --resume to go on from it, or another --checkpoint")
    return load_checkpoint(path, model, optimizer, config)


def load_checkpoint(path, model, optimizer, config):
    """Bring model, optimiser and random generators to the state of a checkpoint.

    Parameters
    ----------
    path : str or Path
        Of a file that `save_checkpoint` wrote.
    model, optimizer
        Changed in place.
    config : dict
        That of this job, to be compared with that of the job that wrote the file.

    Returns
    -------
    dict
        `progress` as it was saved.

    Raises
    ------
    ValueError
        If the file is damaged, if this job has another number of ranks or another configuration,
        or if the ranks find different files.
    """
    state = _read(Path(path))
    check_equal_on_ranks("the checkpoint", state["progress"], "Put it where all machines see it.")
    _check_same_job(path, state, config)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    _set_rng_state(state["rngs"][dist.get_rank()])
    return state["progress"]


def _replace(path, state):
    """Write beside the target, force it to the disk, then rename: a rename is atomic."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + ".part")
    with open(temporary, "wb") as file:
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)


def _read(path):
    try:
        # weights_only: the file may hold tensors, numbers and containers, but run no code.
        return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        raise ValueError(
            f"{path} is not a readable checkpoint ({type(error).__name__}): give another path, or "
            "remove it and start from the beginning"
        ) from error


def _check_same_job(path, state, config):
    ranks, world_size = len(state["rngs"]), dist.get_world_size()
    if ranks != world_size:
        raise ValueError(
            f"{path} was written by {ranks} ranks, this job has {world_size}: start {ranks} "
            "processes (--nnodes times --nproc-per-node), or begin anew with another --checkpoint"
        )
    for name, value in config.items():
        saved = state["config"].get(name)
        if saved != value:
            raise ValueError(
                f"{path} was written with {name} = {saved}, this job has {name} = {value}: give "
                "the same value, or begin anew with another --checkpoint"
            )


def _rng_state():
    state = {"cpu": torch.get_rng_state()}
    if torch.cuda.is_initialized():
        state["cuda"] = torch.cuda.get_rng_state()
    return state


def _set_rng_state(state):
    torch.set_rng_state(state["cpu"])
    if "cuda" in state and torch.cuda.is_initialized():
        torch.cuda.set_rng_state(state["cuda"])
