"""Zero-bubble schedules, in one order in every run.

PyTorch keeps the nodes of a split backward pass in sets, which are ordered by addresses.
"""

from simgpu.backend.pytorch.replacements import find

GROUPS = "torch.distributed.pipelining._backward:get_param_groups"


def replacements() -> dict:
    """Return what shall stand for PyTorch's names while ranks run."""
    return {GROUPS: _in_order(find(GROUPS))}


def _in_order(get_param_groups):
    def ordered(inputs, params, reverse_edges):
        params = list(params)
        groups = get_param_groups(inputs, params, reverse_edges)
        for group in groups:
            group["params"] = [param for param in params if param in group["params"]]
            group["intermediates"] = sorted(group["intermediates"], key=_number)
        return groups

    return ordered


def _number(node):
    return node._sequence_nr()
