"""Make zero-bubble schedules run in the same order every time.

PyTorch keeps the nodes of a split backward pass in sets, whose order depends on addresses.
"""

from simgpu.backend.pytorch.replacements import find

GROUPS = "torch.distributed.pipelining._backward:get_param_groups"


def replacements() -> dict:
    """Return the replacements of PyTorch's names while ranks run."""
    return {GROUPS: _in_order(find(GROUPS))}


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
