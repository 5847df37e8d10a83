"""Watch a script on all ranks by hooks around public functions of PyTorch."""

import functools
import gc
import sys
import weakref
from collections import Counter

import torch
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from simgpu import user_frame
from simgpu.backend.pytorch.replacements import Replacements, find
from simgpu.check.watch.examples import Examples, digests
from simgpu.check.watch.files import Files
from simgpu.check.watch.records import INPUTS, RankRecord, RunRecord, Step
from simgpu.check.watch.tensors import name_of, piece, values
from simgpu.clock import current

_CLIP = "torch.nn.utils:clip_grad_norm_", "torch.nn.utils.clip_grad:clip_grad_norm_"
_BACKWARD = "torch.autograd:backward"
_DROPOUT = "torch.nn.functional:dropout"
_ATTENTION = "torch.nn.functional:scaled_dot_product_attention"
_SCHEDULE = "torch.optim.lr_scheduler:LRScheduler.step"
_PREFIXES = "module.", "_orig_mod.", "_fsdp_wrapped_module."
HALF = "bfloat16", "float16"


class Observer:
    """Records what ranks do, inside a ``with`` block.

    Parameters
    ----------
    reverse : bool, default False
        Whether batches have their examples in reverse order.
    since, until : float, optional
        When the first run of the check began, and this one, in seconds since the epoch.

    Attributes
    ----------
    record : RunRecord
    examples : Examples
    """

    def __init__(self, reverse=False, since=None, until=None):
        self.record, self._world = RunRecord(), None
        self._files = Files(self._rank, script_line, since, until)
        self.record.files = self._files.found
        self.examples = Examples(self._rank, script_line, reverse)
        self._names = {}  # rank -> id of a parameter -> its name
        self._roots = {}  # rank -> modules that were called and are in no other such module
        self._main = {}  # rank -> the optimizer whose steps count
        self._within = {}  # rank -> how many optimizers' steps it is in
        self._before = {}  # rank -> name -> values of half-precision parameters before the step
        self._calls = {}  # rank -> its calls of collectives until its last step
        self._replacements = Replacements()

    def __enter__(self):
        begin, end = self._begin_step, self._end_step
        self._hooks = [
            register_optimizer_step_pre_hook(begin), register_optimizer_step_post_hook(end),
            register_module_forward_pre_hook(self._call),
        ]  # fmt: skip
        self._replacements.add({
            **self.examples.replacements(),
            **self._files.replacements(),
            **dict.fromkeys(_CLIP, self._clip(find(_CLIP[0]))),
            _BACKWARD: self._backward(find(_BACKWARD)),
            _DROPOUT: self._dropout(find(_DROPOUT)),
            _ATTENTION: self._attention(find(_ATTENTION)),
            _SCHEDULE: self._schedule(find(_SCHEDULE)),
        })  # fmt: skip
        return self

    def __exit__(self, *_):
        for hook in self._hooks:
            hook.remove()
        self._replacements.close()

    def _rank(self):
        """Return the record of the rank that runs; None outside of ranks."""
        if current.ranks is None or current.machine_in_use() is None:
            return None
        if self._world is not current.ranks:  # the ranks start, or start again
            self._world, self.record.ranks = current.ranks, {}
            of_ranks = self._names, self._roots, self._main, self._within, self._before, self._calls
            for known in of_ranks:
                known.clear()
        return self.record.ranks.setdefault(self._number(), RankRecord())

    @staticmethod
    def _number():
        return current.ranks.rank.number

    def _call(self, module, inputs):
        """Remember the modules that the script itself calls, which have names for parameters."""
        rank = self._rank()
        if rank is None:
            return
        known = self._roots.setdefault(self._number(), {})
        if id(module) not in known:
            known.update((id(part), None) for part in module.modules())
            known[id(module)] = weakref.ref(module)
        if known[id(module)] is not None and module.training and torch.is_grad_enabled():
            rank.now.examples.setdefault(INPUTS, []).extend(digests(inputs))

    def _find_names(self):
        names, taken = self._names.setdefault(self._number(), {}), set()
        for ref in [*self._roots.get(self._number(), {}).values()]:
            root = ref and ref()
            for name, parameter in root.named_parameters() if root is not None else ():
                name = short_name(name)
                if id(parameter) not in names and name not in taken:
                    names[id(parameter)] = name
                taken.add(name)
        return names

    def _named(self, parameters):
        """Yield parameters with their names; one that no module has is called by its place."""
        parameters = list(parameters)
        names = self._names.get(self._number(), {})
        if any(id(parameter) not in names for parameter in parameters):
            names = self._find_names()
        for i, parameter in enumerate(parameters):
            yield names.setdefault(id(parameter), f"parameter {i}"), parameter

    def _note_gradients(self, rank, parameters):
        for name, parameter in self._named(parameters):
            if parameter.grad is not None and name not in rank.now.gradients:
                rank.now.gradients[name] = piece(parameter.grad)

    def _clip(self, real):
        @functools.wraps(real)
        def clip(parameters, *args, **kwargs):
            rank = self._rank()
            if isinstance(parameters, torch.Tensor):
                parameters = [parameters]
            parameters = list(parameters)
            if rank is not None:
                rank.now.lines.setdefault("clip", script_line())
                self._note_gradients(rank, parameters)
            return real(parameters, *args, **kwargs)

        return clip

    def _backward(self, real):
        @functools.wraps(real)
        def backward(tensors, *args, **kwargs):
            rank = self._rank()
            if rank is not None and isinstance(tensors, torch.Tensor) and tensors.numel() == 1:
                rank.now.losses.append(float(values(tensors)))
                rank.now.lines.setdefault("backward", script_line())
            return real(tensors, *args, **kwargs)

        return backward

    def _dropout(self, real):
        @functools.wraps(real)
        def dropout(input, p=0.5, training=True, inplace=False):
            if p and training:
                self._note_random(f"dropout of {p:g}")
            return real(input, p, training, inplace)

        return dropout

    def _attention(self, real):
        @functools.wraps(real)
        def attention(query, key, value, attn_mask=None, dropout_p=0.0, *args, **kwargs):
            if dropout_p:
                self._note_random(f"dropout of {dropout_p:g} in attention")
            return real(query, key, value, attn_mask, dropout_p, *args, **kwargs)

        return attention

    def _note_random(self, what):
        rank = self._rank()
        if rank is not None:
            rank.random.setdefault(what, script_line())

    def _schedule(self, real):
        @functools.wraps(real)
        def step(scheduler, *args, **kwargs):
            rank = self._rank()
            if rank is not None:
                rank.now.schedules += 1
                if sys._getframe(1).f_code.co_name != "_initial_step":
                    rank.now.lines["schedule"] = script_line()
            return real(scheduler, *args, **kwargs)

        return step

    def _begin_step(self, optimizer, args, kwargs):
        rank = self._rank()
        if rank is None:
            return
        number = self._number()
        self._within[number] = self._within.get(number, 0) + 1
        if self._within[number] > 1:  # an optimizer that is a part of another
            return
        self._choose_main(number, optimizer)
        rank.now.lines["step"] = script_line()
        named = list(self._named(_parameters(optimizer)))
        if not rank.done:
            for name, parameter in named:
                rank.start.setdefault(name, piece(parameter))
        self._note_gradients(rank, [parameter for _, parameter in named])
        count = len({key[0] for key in rank.now.rates})
        for i, group in enumerate(optimizer.param_groups):
            rank.now.rates[count, i] = float(group["lr"]) if "lr" in group else 0.0
        self._before[number] = {
            name: values(parameter).clone() for name, parameter in named
            if name_of(parameter.dtype) in HALF and parameter.grad is not None
        }  # fmt: skip

    def _choose_main(self, number, optimizer):
        """Let the first optimizer count; the next one once the script has dropped that."""
        main = self._main.get(number)
        if main is not None and main() is not optimizer:
            gc.collect()  # a scheduler and its optimizer hold each other
        if main is None or main() is None:
            self._main[number] = weakref.ref(optimizer)

    def _end_step(self, optimizer, args, kwargs):
        rank = self._rank()
        if rank is None:
            return
        number, now = self._number(), rank.now
        self._within[number] -= 1
        if self._within[number]:
            return
        for name, parameter in self._named(_parameters(optimizer)):
            now.parameters[name] = piece(parameter)
            now.types[name] = name_of(parameter.dtype)
            for key, state in optimizer.state.get(parameter, {}).items():
                if isinstance(state, torch.Tensor) and state.dim():
                    now.types[f"{key} of {name}"] = name_of(state.dtype)
            if name in self._before[number]:
                now.lost = _add_lost(now.lost, self._before[number][name], parameter)
        if self._main[number]() is optimizer:
            calls = current.ranks.matching.calls.of_rank(number)
            now.calls = calls - self._calls.get(number, Counter())
            self._calls[number] = calls
            rank.steps.append(Step())


def _parameters(optimizer):
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def _add_lost(lost, before, parameter):
    """Count the elements with a gradient that a step has left as they were."""
    if parameter.grad is None:
        return lost
    moved = values(parameter.grad) != 0
    if moved.shape != before.shape:
        return lost
    same = int((moved & (before == values(parameter))).sum())
    return lost[0] + same, lost[1] + int(moved.sum())


def short_name(name) -> str:
    """Return the name of a parameter without what wrappers of the model add.

    Examples
    --------
    >>> short_name("module.layers.0.weight")
    'layers.0.weight'
    """
    for prefix in _PREFIXES:
        name = name.removeprefix(prefix)
        name = name.replace(f".{prefix}", ".") if prefix != "module." else name
    return name


def script_line() -> str:
    """Return the line that runs: of the script, if it is not only a library that calls."""
    frame, found = sys._getframe(1), ""
    while frame is not None:
        code = frame.f_code
        if user_frame.is_user_code(code.co_filename):
            here = f"{code.co_filename.rpartition('/')[2]}:{frame.f_lineno}"
            if "site-packages" not in code.co_filename:
                return here
            found = found or here
        frame = frame.f_back
    return found
