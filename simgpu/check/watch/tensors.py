"""Read gradients and parameters of a rank, whole ones and shards, without taking simulated time."""

import hashlib

import torch
from torch.distributed.tensor import DTensor

from simgpu.backend import tensor as backend
from simgpu.backend.tensor import SimTensor
from simgpu.check.watch.records import Piece
from simgpu.kernels.facts import aten, lookup

_COPY = lookup(aten._to_copy.default)


def values(tensor) -> torch.Tensor:
    """Return what a tensor holds on this rank, as a tensor of the host.

    If a collective is still to write it, the rank waits, as before any operation on it.
    """
    local = tensor.to_local() if isinstance(tensor, DTensor) else tensor
    local = local.detach()
    if isinstance(local, SimTensor):
        if backend.watch is not None:
            backend.watch(_COPY, (local,), None)
        local = local._data
    return local


def piece(tensor) -> Piece:
    """Describe what a rank holds of a parameter or a gradient."""
    held, (place, term) = values(tensor), _place(tensor)
    return Piece(
        tensor.numel(), place, _squares(held), _digest(held), name_of(tensor.dtype), term,
        held.double() if term else None,
    )  # fmt: skip


def whole_of(terms) -> Piece:
    """Return the sum of pieces that ranks have still to add up."""
    first, *_ = terms
    held = sum(term.values for term in terms)
    return Piece(first.numel, first.place, _squares(held), _digest(held), first.dtype)


def _squares(held):
    return float(held.double().square().sum())


def name_of(dtype) -> str:
    """Return a data type without ``torch.``."""
    return str(dtype).removeprefix("torch.")


def norm(pieces) -> float:
    """Return the norm of what some pieces hold together."""
    return sum(one.squares for one in pieces) ** 0.5


def _place(tensor):
    """Say which part of a tensor this is, "" for all, and which summand of it, "" for no such."""
    if not isinstance(tensor, DTensor):
        return "", ""
    mesh, at, found = tensor.device_mesh, tensor.device_mesh.get_coordinate(), ([], [])
    for axis, placement in enumerate(tensor.placements):
        if not placement.is_replicate() and mesh.size(axis) > 1:
            part = f"{placement} {at[axis]} of {mesh.size(axis)}"
            found[placement.is_partial()].append(part)
    return tuple(map(", ".join, found))


def _digest(held):
    """Return a digest of the elements, by which copies are compared."""
    flat = held.contiguous().reshape(-1).view(torch.uint8)
    return hashlib.blake2b(flat.numpy(), digest_size=16).digest()
