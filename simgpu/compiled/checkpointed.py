"""What is checkpointed inside a region: what a policy keeps, and when the rest is done again.

The rules are those for nodes that `torch.utils.checkpoint` has marked, in
torch/_functorch/partitioners.py. A result that the policy keeps (``MUST_SAVE``) is not computed
again, and kept if the backward pass needs it; the rest is done again as late as possible
(`reordering_to_mimic_autograd_engine`).
"""

from contextlib import contextmanager
from weakref import WeakMethod

import torch
from torch.autograd.graph import saved_tensors_hooks

from simgpu.compiled.entries import seen_in

_hooks = torch._C._autograd._top_saved_tensors_default_hooks

# Their results alone follow from those of products in a way whose backward pass needs neither.
_LINEAR = {"add", "sub", "neg", "cat", "stack", "clone", "copy", "_to_copy", "sum", "mean"}
_PRODUCTS = {"mm", "addmm", "bmm", "baddbmm", "convolution"}


def by_policy(entries, saved) -> tuple:
    """Return the values that a policy keeps, and those that it would keep for nothing.

    Parameters
    ----------
    entries : sequence of Entry
        Of a forward pass.
    saved : set of int
        Values that autograd or a policy has kept.
    """
    made = {o.value: e for e in entries if e.checkpointed for o in e.outs if o}
    marked, readers = made.keys() & saved, _readers(entries)
    idle = {v for v in marked if made[v].op.name in _PRODUCTS and not _is_needed(v, readers)}
    return marked - idle, idle


def _readers(entries):
    found = {}
    for entry in entries:
        for x in seen_in((entry.args, entry.kwargs)):
            found.setdefault(x.value, []).append(entry)
    return found


def _is_needed(value, readers):
    """Whether a backward pass needs a value, or does again what does not follow from it alone."""
    return any(
        entry.op is None or entry.op.name not in _LINEAR
        or any(_is_needed(o.value, readers) for o in entry.outs if o)
        for entry in readers.get(value, ())
    )  # fmt: skip


def done_again(recorded) -> set:
    """Return the numbers of the entries of a backward pass that a checkpoint does again.

    What changes memory, or lies in such memory, is not among them: it has its place in the order.
    """
    changed = {v for value, first, _ in recorded.in_place for v in (value, first)}
    return {
        i
        for i, entry in enumerate(recorded.entries)
        if entry.checkpointed and not entry.alone and not entry.op.mutable
        and changed.isdisjoint(x.value for x in seen_in((entry.args, entry.kwargs, entry.outs)))
    }  # fmt: skip


def late(nodes, again) -> list:
    """Return nodes in order, with those of some entries moved to where they are needed."""
    waiting, found = {}, []  # waiting: value -> the number of its node
    for i, node in enumerate(nodes):
        if node.entry in again:
            waiting.update((v, i) for v, _ in node.writes)
        else:
            found += [nodes[k] for k in _taken(node, nodes, waiting)]
            found.append(node)
    return found + [nodes[k] for k in sorted(set(waiting.values()))]


def _taken(node, nodes, waiting):
    """Return the numbers of the waiting nodes that a node needs, which wait no longer."""
    chosen, stack = set(), [node]
    while stack:
        for v, *_ in stack.pop().reads:
            k = waiting.pop(v, None)
            if k is not None and k not in chosen:
                chosen.add(k)
                stack.append(nodes[k])
    for k in chosen:
        for v, _ in nodes[k].writes:
            waiting.pop(v, None)
    return sorted(chosen)


def saving_hook():
    """Return the function that stands for a saved tensor, such as a checkpoint's, or None."""
    hooks = _hooks(True)
    return hooks[0] if hooks else None


@contextmanager
def as_one_call():
    """Let a checkpoint around compiled code see one call, which saves its tensors at its end.

    Done again, the code runs to its end, where eager code ends with the last tensor that autograd
    saves. A backward pass gets all tensors before it runs: what gives the ``with`` statement's
    target lets the checkpoint do its part again before, as eager code; it is None elsewhere.
    """
    hook = saving_hook()
    name = getattr(hook, "__qualname__", "")
    if name.startswith("_checkpoint_hook."):
        first, unpack = [], _hooks(True)[1]

        def box(x):
            held = _Box(hook(x), unpack)
            if not first:
                first.append(WeakMethod(held.fill))  # the graph keeps it
            return held

        with saved_tensors_hooks(box, _Box.take):
            yield lambda: [fill() for find in first if (fill := find())]
    elif name.startswith("_recomputation_hook."):
        saved = []
        with saved_tensors_hooks(lambda x: saved.append(_apart(x)) or saved[-1], lambda x: x):
            yield None
        for x in saved:
            hook(x)
    else:
        yield None


def _apart(x):
    return x.detach() if x.requires_grad else x


class _Box:
    """Holds what a checkpoint gives for a saved tensor, and then what it gives back."""

    def __init__(self, packed, unpack):
        self._packed, self._unpack, self._tensor = packed, unpack, None

    def fill(self):
        """Take the tensor back, for which the checkpoint does its part again."""
        if self._tensor is None:
            self._tensor = self._unpack(self._packed)

    def take(self):
        """Return the tensor, once for each backward pass."""
        self.fill()
        tensor, self._tensor = self._tensor, None
        return tensor
