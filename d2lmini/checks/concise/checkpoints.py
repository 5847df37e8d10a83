"""Checker of a checkpoint to which every rank contributes."""

import os
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from unittest import mock

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from d2lmini.checks.concise.ranks import on_ranks
from d2lmini.checks.shared.results import describe
from d2lmini.checks.shared.solution import checker


@checker("save_all(path, model, seen)")
def check_save_all(save_all):
    """Check a function that saves a checkpoint of all ranks.

    Parameters
    ----------
    save_all : callable
        ``save_all(path, model, seen)``, called on every rank: `model` is wrapped in
        `DistributedDataParallel`, `seen` is a list of whole numbers, another one on each rank. It
        saves a dictionary: "net" has the network's weights by their own names, "seen" the lists of
        all ranks, in their order. No rank returns before the file is complete.

    Raises
    ------
    AssertionError
        If the ranks deadlock, the file lacks something or is written by several ranks, or a rank
        returns too early.
    """
    for nprocs in (2, 3, 1):  # with one there are fewer mistakes to name
        where = f"{nprocs} rank(s)"
        given, writers = save_all.at(where), set()
        with TemporaryDirectory() as folder, _noting(writers):
            path = os.path.join(folder, "run.pt")

            def program(rank, device, given=given, path=path):
                model = DistributedDataParallel(nn.Linear(2, 1).to(device))
                given(path, model, [rank, 10 + rank])
                return os.path.exists(path), model.module.weight.detach().cpu()

            results = on_ranks(given, nprocs, program)
            assert len(writers) < 2, (
                f"{where}: ranks {sorted(writers)} write one file at the same time; let rank 0 "
                "alone call torch.save"
            )
            _check_there([there for there, _ in results], folder, where)
            _check_content(torch.load(path, map_location="cpu"), results[0][1], nprocs, where)
    print("save_all: passed")


@contextmanager
def _noting(writers):
    """Record which ranks call ``torch.save``."""
    save = torch.save

    def noting(*args, **options):
        writers.add(dist.get_rank())
        return save(*args, **options)

    with mock.patch.object(torch, "save", noting):
        yield


def _check_there(there, folder, where):
    assert os.listdir(folder), f"{where}: there is no file; save it at `path`"
    early = [rank for rank, found in enumerate(there) if not found]
    assert not early, (
        f"{where}: rank {early[0]} returns before the file is there, and may load an old one or "
        "end the job; let all ranks wait at a barrier, after rank 0 has saved"
    )
    left = sorted(set(os.listdir(folder)) - {"run.pt"})
    assert not left, f"{where}: {left[0]} is left beside the checkpoint"


def _check_content(saved, weight, nprocs, where):
    has_both = isinstance(saved, dict) and {"net", "seen"} <= set(saved)
    assert has_both, (
        f'{where}: the file has {describe(saved)}; save a dictionary with "net" and "seen"'
    )
    names = list(saved["net"])
    assert not any(name.startswith("module.") for name in names), (
        f"{where}: the weights are named {names}, which a network that is not wrapped cannot load; "
        "save model.module.state_dict()"
    )
    is_ours = names == ["weight", "bias"] and torch.equal(saved["net"]["weight"].cpu(), weight)
    assert is_ours, f"{where}: the file does not have the weights of the network"
    wanted, seen = [[rank, 10 + rank] for rank in range(nprocs)], saved["seen"]
    hint = "collect the lists of all ranks, in their order, before rank 0 saves"
    if seen in (wanted[0], wanted[:1]) and nprocs > 1:
        hint = f"that is rank 0's part alone; what the other ranks hold is lost. {hint}"
    assert seen == wanted, f'{where}: "seen" is {seen}, but {wanted} is right: {hint}'
