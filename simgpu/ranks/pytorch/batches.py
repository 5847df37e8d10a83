"""Tell a group when `batch_isend_irecv` begins: PyTorch does so for groups in C++ alone."""

import functools

from simgpu.backend.pytorch.replacements import find
from simgpu.ranks.communication.process_group import SimProcessGroup
from simgpu.ranks.process.torch_internals import C10D

CHECK = f"{C10D}:_check_p2p_op_list"  # it is the first that `batch_isend_irecv` calls


def replacements() -> dict:
    """Return the replacements of PyTorch's names while ranks run."""
    return {CHECK: _begin_batch(find(CHECK))}


def _begin_batch(check):
    @functools.wraps(check)
    def checked(operations):
        check(operations)
        group = operations[0].group
        if isinstance(group, SimProcessGroup):
            group.start_batch(len(operations))

    return checked
