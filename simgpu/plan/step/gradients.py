"""Data parallelism without FSDP: buckets of gradients, summed over replicas; the optimiser."""

import functools

import torch
import torch.distributed as dist

from simgpu.plan.step.kernels import touch


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
        for i, (module, parameters) in enumerate(parts):
            numbers = -(-sum(p.numel() for p in parameters) // self.count) * self.count
            device = parameters[0].device
            self.flat.append(torch.empty(numbers, dtype=program.reduced, device=device))
            self.left[i] = micro_batches * len(parameters)
            if self.sharded:  # into which the parameters are gathered
                self.whole.append(torch.empty(numbers, dtype=program.half, device=device))
            begin = 0
            for p in parameters:
                if self.sharded:
                    p.data = self.whole[i][begin : begin + p.numel()].view_as(p)
                place = self.flat[i][begin : begin + p.numel()].view_as(p)
                done = functools.partial(self._done, i=i, place=place)
                p.register_post_accumulate_grad_hook(done)
                begin += p.numel()
            module.register_forward_pre_hook(lambda *_, i=i: self._ready(i))
        share = self.count if self.sharded else 1
        self.states = [
            [torch.empty(len(f) // share, device=f.device) for _ in range(3)] for f in self.flat
        ]

    def begin(self):
        """Gather the parameters that the optimiser has changed (ZeRO-1), if that overlaps."""
        if self.sharded and self.program.overlap and self.count > 1:
            self.gathers = {i: self._gather(i) for i in range(len(self.flat))}

    def _gather(self, i):
        whole = self.whole[i]
        part = whole[: len(whole) // self.count].clone()
        return dist.all_gather_into_tensor(whole, part, group=self.shards, async_op=True)

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
            part = flat[: len(flat) // self.count].clone()
            work = dist.reduce_scatter_tensor(part, flat, group=self.group, async_op=True)
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
        for states, flat in zip(self.states, self.flat, strict=True):
            part = flat[: len(states[0])]
            touch([part, *states, *states, part.to(self.program.half)])
        if self.sharded and not self.program.overlap and self.count > 1:
            for i in range(len(self.flat)):
                self._gather(i).wait()


def adam(parameters):
    """Make Adam's moments for sharded parameters; return what changes these in one kernel."""
    shards = [p.to_local() for p in parameters]
    moments = [torch.empty_like(s) for s in (*shards, *shards)]

    def step():
        grads = [p.grad.to_local() for p in parameters if p.grad is not None]
        touch([*shards, *moments, *grads, *shards, *moments])

    return step
