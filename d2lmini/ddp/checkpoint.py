"""Save a training job so that it can resume as if it had never stopped.

A checkpoint is a file of `torch.save`, which `torch.load` can read, followed by 32 bytes: the
SHA-256 of the content before them. `torch.load` does not verify the file's own checksums.
"""

import hashlib
import io
import os
from contextlib import contextmanager
from pathlib import Path

import torch
import torch.distributed as dist

from d2lmini.ddp.collect import average_buffers, check_equal_on_ranks, wait_for_all_ranks

# The entries of a checkpoint.
ENTRIES = {"model": dict, "optimizer": dict, "progress": dict, "rngs": list, "config": dict}


def save_checkpoint(path, model, optimizer, progress, config):
    """Write everything that the next step depends on. All ranks call it; rank 0 writes.

    The file at `path` is replaced atomically: even after a crash while writing, it has the complete
    old state or the complete new one.

    Parameters
    ----------
    path : str or Path
        Of the file, on storage that all machines share. A symbolic link is followed: its target
        is replaced.
    model, optimizer
        Those of rank 0 are saved: data-parallel training keeps weights and optimiser state equal on
        all ranks, and `average_buffers` makes the buffers equal.
    progress : dict
        How far the training is, as non-negative integers; `load_checkpoint` returns it.
    config : dict
        Settings that must be the same when the run is resumed.

    Raises
    ------
    OSError
        On rank 0, if the file cannot be written; an older one is kept.
    """
    average_buffers(model)
    rngs = [None] * dist.get_world_size()
    dist.all_gather_object(rngs, _rng_state())  # the only state that differs between ranks
    if dist.get_rank() == 0:
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
        state |= {"progress": progress, "rngs": rngs, "config": config}
        _replace(_target(path), _serialise(state))
    wait_for_all_ranks()  # no rank continues before the state is saved


def begin_or_resume(path, resume, model, optimizer, config):
    """Load the checkpoint if there is one and `resume` is set; check that one can be written.

    Parameters
    ----------
    path : str or Path or None
        None: this run saves no checkpoint.
    resume : bool
        Whether to resume from an existing file at `path`.
    model, optimizer, config
        See `load_checkpoint`.

    Returns
    -------
    dict or None
        The saved progress; None: start from the beginning.

    Raises
    ------
    ValueError
        If a file exists that a new run would overwrite, or only some ranks see it; if no file can
        be written there; or as in `load_checkpoint`.
    """
    if path is None:
        return None
    if dist.get_rank() == 0:
        _check_writable(path)
    exists = os.path.isfile(path)
    check_equal_on_ranks(f"whether {path} exists", exists, "Put it where all machines see it.")
    if not exists:
        return None
    if not resume:
        raise ValueError(f"{path} exists: resume from it, or give another path")
    return load_checkpoint(path, model, optimizer, config)


def load_checkpoint(path, model, optimizer, config):
    """Restore model, optimiser and random generators from a checkpoint.

    Parameters
    ----------
    path : str or Path
        A file that `save_checkpoint` wrote.
    model, optimizer
        Changed in place.
    config : dict
        Settings of this job; must equal those of the job that wrote the file.

    Returns
    -------
    dict
        The saved progress.

    Raises
    ------
    ValueError
        If the file is damaged or not from `save_checkpoint`, if this job has a different number of
        ranks or a different configuration, or if the ranks read different files.
    """
    state, digest = _read(path)
    remedy = "Put it where all machines see it."
    check_equal_on_ranks("the checkpoint's SHA-256", digest, remedy)
    _check_same_job(path, state, config)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    _set_rng_state(state["rngs"][dist.get_rank()])
    return state["progress"]


def _serialise(state):
    """Return the bytes of a checkpoint."""
    buffer = io.BytesIO()
    torch.save(state, buffer)
    digest = hashlib.sha256(buffer.getbuffer()).digest()
    buffer.write(digest)
    return buffer.getbuffer()


def _target(path):
    """Return the path of the file to replace, with symbolic links resolved."""
    return Path(os.path.realpath(path))


def _check_writable(path):
    """Raise ValueError early if `_replace` would not be able to write."""
    target = _target(path)
    try:
        if target.exists() and not target.is_file():  # a folder, or perhaps /dev/null
            raise ValueError(f"{str(path)!r} is not a file: give the path of one")
        with _temporary_file(target, b""):
            pass
    except OSError as error:
        raise ValueError(
            f"no checkpoint can be written to {path} ({error.strerror}): give a path in a folder "
            "where you may write"
        ) from error


def _replace(target, content):
    """Write and fsync a file next to the target, then rename it, which is atomic."""
    try:
        with _temporary_file(target, content) as part:
            os.replace(part, target)
    except OSError as error:
        raise OSError(
            f"the checkpoint cannot be written to {target} ({error.strerror}): make room there or "
            "give another path. If there was a file before, it is intact: resume from it"
        ) from error


@contextmanager
def _temporary_file(target, content):
    """Write a file next to the target; remove it at the end unless it was renamed."""
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(target.name + ".part")
    try:
        with open(part, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        yield part
    finally:
        part.unlink(missing_ok=True)


def _read(path):
    """Return the state in a file, and the file's SHA-256 in hexadecimal."""
    try:
        content = memoryview(Path(path).read_bytes())
    except OSError as error:
        raise ValueError(
            f"{path} cannot be read ({error.strerror}): make it readable, or give another path"
        ) from error
    saved, digest = content[:-32], bytes(content[-32:])
    if hashlib.sha256(saved).digest() != digest:
        raise _no_checkpoint(path, "its SHA-256 is not the one at its end")
    try:
        # weights_only: the file may contain tensors, numbers and containers, but no code.
        state = torch.load(io.BytesIO(saved), map_location="cpu", weights_only=True)
    except Exception as error:
        raise _no_checkpoint(path, type(error).__name__) from error
    if not (isinstance(state, dict) and _has_entries(state)):
        raise _no_checkpoint(path, f"it does not hold {', '.join(ENTRIES)}")
    for name, count in state["progress"].items():
        if isinstance(count, int) and count < 0:
            raise _no_checkpoint(path, f"{name} = {count} in its progress")
    return state, digest.hex()


def _has_entries(state):
    return all(isinstance(state.get(name), kind) for name, kind in ENTRIES.items())


def _no_checkpoint(path, reason):
    return ValueError(
        f"{path} is damaged or no checkpoint of this program ({reason}): give another path, or "
        "remove it and start from the beginning"
    )


def _check_same_job(path, state, config):
    ranks, world_size = len(state["rngs"]), dist.get_world_size()
    if ranks != world_size:
        raise ValueError(
            f"{path} was written by {ranks} ranks, this job has {world_size}: start {ranks} "
            "processes (--nnodes times --nproc-per-node), or start a new run with another path"
        )
    for name, value in config.items():
        saved = state["config"].get(name)
        if saved != value:
            raise ValueError(
                f"{path} was written with {name} = {saved}, this job has {name} = {value}: give "
                "the same value, or start a new run with another path"
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
