"""Let pipeline schedules run in the same order every time, and greet their neighbours.

PyTorch keeps the nodes of a split backward pass in sets, whose order depends on addresses. Where
stages first exchange a number with both neighbours, as in PyTorch 2.11 all do, they receive both in
one tensor, whose value nobody reads; programs that do so with values that count are refused.
"""

import functools

import torch
import torch.distributed as dist

from simgpu.backend.pytorch.replacements import exists, find

GROUPS = "torch.distributed.pipelining._backward:get_param_groups"
GREET = "torch.distributed.pipelining.stage:_PipelineStageBase._get_init_p2p_neighbors_ops"


def replacements() -> dict:
    """Return the replacements of PyTorch's names while ranks run."""
    found = {GROUPS: _in_order(find(GROUPS))}
    if exists(GREET):
        found[GREET] = _apart(find(GREET))
    return found


def _in_order(get_param_groups):
    def ordered(inputs, params, reverse_edges):
        params = list(params)
        groups = get_param_groups(inputs, params, reverse_edges)
        for group in groups:
            group["params"] = [param for param in params if param in group["params"]]
            group["intermediates"] = sorted(group["intermediates"], key=_sequence_number)
        return groups

    return ordered


def _sequence_number(node):
    return node._sequence_nr()


def _apart(greet):
    """Let every message arrive in a tensor of its own."""

    @functools.wraps(greet)
    def apart(stage):
        operations = greet(stage)
        for operation in operations:
            if operation.op is dist.irecv:
                operation.tensor = torch.empty_like(operation.tensor)
        return operations

    return apart
