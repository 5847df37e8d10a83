"""Data parallelism without FSDP: buckets of gradients, summed over replicas; the optimiser."""

import functools

import torch
import torch.distributed as dist

from simgpu.plan.step.layers import Layer
from simgpu.plan.step.recipe.names import OF_MATRICES
from simgpu.plan.step.recipe.optimizers import make_optimizer


class Buckets:
    """The gradients of some modules, one bucket each.

    Parameters
    ----------
    parts : list of tuple
        (module, its parameters), in the order of the forward pass.
    group : ProcessGroup
        The replicas.
    program : Program
    micro_batches : int
        After how many backward passes a bucket is full.
    shards : ProcessGroup, optional
        The replicas that share the optimiser's states (ZeRO-1); None: all.
    """

    def __init__(self, parts, group, program, micro_batches, shards=None):
        self.group, self.shards, self.program = group, shards or group, program
        self.count = dist.get_world_size(self.shards)
        self.sharded = program.shard == "optimizer"
        self.left, self.works, self.gathers, self.flat, self.whole = {}, [], {}, [], []
        self.shapes = []  # of parameters that the optimizer wants one by one
        for i, (module, parameters) in enumerate(parts):
            numbers = -(-sum(p.numel() for p in parameters) // self.count) * self.count
            device = parameters[0].device
            self.flat.append(torch.empty(numbers, dtype=program.reduced, device=device))
            self.left[i] = micro_batches * len(parameters)
            self.whole.append(torch.empty(numbers, dtype=program.half, device=device))
            begin = 0
            for p in parameters:
                p.data = self.whole[i][begin : begin + p.numel()].view_as(p)
                place = self.flat[i][begin : begin + p.numel()].view_as(p)
                done = functools.partial(self._done, i=i, place=place)
                p.register_post_accumulate_grad_hook(done)
                begin += p.numel()
            module.register_forward_pre_hook(lambda *_, i=i: self._ready(i))
            self.shapes.append([p.shape for p in parameters])
        self.parts = self.count if self.sharded else 1
        self.part = dist.get_rank(self.shards) if self.sharded else 0
        self.masters = [self._master(i) for i in range(len(self.flat))]
        self.optimizers = [
            make_optimizer(program.optimizer, self._each(i, master), self._inside(module, i))
            for i, (master, (module, _)) in enumerate(zip(self.masters, parts, strict=True))
        ]

    def _master(self, i):
        """Return this rank's part of some parameters, or the copy that the optimizer changes."""
        own, program = self._own(self.whole[i]), self.program
        return torch.empty_like(own, dtype=program.master) if program.has_copies else own

    def _own(self, flat):
        size = len(flat) // self.parts
        return flat[self.part * size :][:size]

    def _each(self, i, flat):
        """Return what the optimizer gets of a bucket: all as one, or each parameter."""
        if self.program.optimizer not in OF_MATRICES:
            return [flat]
        sizes = [shape.numel() for shape in self.shapes[i]]
        used = flat[: sum(sizes)].split(sizes)
        return [part.view(shape) for part, shape in zip(used, self.shapes[i], strict=True)]

    def _inside(self, module, i):
        return [isinstance(module, Layer)] * len(self.shapes[i])

    def begin(self):
        """Empty the buckets; gather parameters that changed (ZeRO-1), if that overlaps."""
        for flat in self.flat:
            flat.zero_()
        if self.sharded and self.program.overlap and self.count > 1:
            self.gathers = {i: self._gather(i) for i in range(len(self.flat))}

    def _gather(self, i):
        whole = self.whole[i]
        return dist.all_gather_into_tensor(
            whole, self._own(whole), group=self.shards, async_op=True
        )  # fmt: skip

    def _ready(self, i):
        if i in self.gathers:
            self.gathers.pop(i).wait()

    def _done(self, parameter, i, place):
        if self.program.adds:
            place.add_(parameter.grad)
        parameter.grad = None
        self.left[i] -= 1
        if self.program.overlap and self.left[i] == 0:
            self._reduce(self.flat[i])

    def _reduce(self, flat):
        if dist.get_world_size(self.group) == 1:
            return
        if self.sharded and self.program.zero_group is None:
            work = dist.reduce_scatter_tensor(
                self._own(flat), flat, group=self.group, async_op=True
            )  # fmt: skip
        else:
            work = dist.all_reduce(flat, group=self.group, async_op=True)
        self.works.append(work)

    def finish(self):
        """Wait for the sums, then run the optimiser."""
        if not self.program.overlap:
            for flat in self.flat:
                self._reduce(flat)
        for work in self.works:
            work.wait()
        for i, optimizer in enumerate(self.optimizers):
            master, flat = self.masters[i], self._own(self.flat[i])
            optimizer.step(self._each(i, flat.to(master.dtype)))
            if self.program.has_copies:
                self._own(self.whole[i]).copy_(master)
        if self.sharded and not self.program.overlap and self.count > 1:
            for i in range(len(self.flat)):
                self._gather(i).wait()
