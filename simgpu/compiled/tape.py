"""The tape of a region: the sink that records kernels, and charges those of a plan instead."""

import os
import threading
import weakref

import torch
from torch.utils._pytree import tree_leaves

from simgpu import user_frame
from simgpu.backend.pytorch.replacements import find
from simgpu.backend.tensor import SimTensor
from simgpu.clock import current
from simgpu.clock.memory import Block, rounded
from simgpu.compiled.checkpointed import saving_hook
from simgpu.compiled.entries import Entry, Seen, seen_in, structure
from simgpu.compiled.graph_inputs import COPY, GraphInputs
from simgpu.compiled.nodes import EXTERN, ZEROS
from simgpu.compiled.plan import Recorded, plan_of
from simgpu.compiled.record import Cost
from simgpu.compiled.uncounted import PendingMemory
from simgpu.hardware.host import seconds_of
from simgpu.kernels.facts import tensors_of
from simgpu.kernels.traffic import bytes_of

_recipes = weakref.WeakKeyDictionary()  # block that was not kept -> what it is computed from
_graph_task = torch._C._current_graph_task_id  # of the backward pass that runs; -1: none
_autograd_node = torch._C._current_autograd_node
# What calls these, such as hooks of FSDP, is no line of the program that a compiler stops at.
_COLLECTIVES = (
    os.path.dirname(torch.distributed.__file__) + os.sep,
    torch.nn.parallel.distributed.__file__,
)
_BY_AUTOGRAD = "torch::autograd::AccumulateGrad"  # it runs beside the compiled backward pass


def recording(device):
    """Return the tape that records the kernels of a device, or None."""
    return next((sink for sink in device.sinks() if isinstance(sink, Tape)), None)


def runs_sum_of_autograd() -> bool:
    """Return whether a backward pass now adds to the gradient of a leaf."""
    node = _autograd_node()
    return node is not None and node.name() == _BY_AUTOGRAD


def _is_complex(results):
    """Return whether an operation makes complex numbers, for which Inductor has no kernels."""
    return isinstance(results, SimTensor) and results._data.is_complex()


class Tape:
    """Records what a device does, and charges it as compiled code.

    Parameters
    ----------
    device : Device
    settings : Settings
        How regions are charged.
    record : Record
        Is told the plan of each part of the region, and what breaks it.
    training : bool
        Whether a backward pass may follow, so that what autograd keeps may be computed again.
    backward : bool
        Whether the region is a backward pass.
    first : int
        The number of the first node that autograd has made for the region: a backward pass that
        has reached an earlier one has left it.
    """

    has_constants = True

    def __init__(self, device, settings, record, training=False, backward=False, first=0):
        self.device, self.settings, self.record = device, settings, record
        self.training, self.backward, self.first = training, backward, first
        self._around = id(saving_hook())  # of a checkpoint around, which outlives the tape
        self._called = False  # whether the host has paid for the call
        self._graph_inputs = GraphInputs(record.buffers)
        self._clear()

    def start(self):
        """Take the kernels and the new memory of the device."""
        device = self.device
        self._task, self._thread = _graph_task(), threading.get_ident()
        self.next, device.sink = device.sink, self
        self._memory = device.memory
        self._pending = device.memory = PendingMemory(self, device.memory)

    def give(self, tensors):
        """Note tensors that the region is given: a CUDA graph copies those that it reads."""
        if self.settings.one_launch:
            self._graph_inputs.give(tensors)

    def stop(self, returned=None):
        """Charge what is recorded, and let the device charge again.

        Parameters
        ----------
        returned : iterable of SimTensor, optional
            What the region returns; the rest is what autograd has kept. By default all that still
            exists is written.
        """
        try:
            self.end_graph(returned)
        finally:
            self.device.memory = self._memory
            self.device.take_out(self)

    def end_graph(self, returned):
        """Charge what is recorded so far; `returned` as in `stop`."""
        known = self.training and returned is not None
        self._settle({t._block.address for t in returned} if known else None)

    def ends_if_over(self):
        """Stop, and return True, if the backward pass has left the region, or an error ended it."""
        over = self.backward and (_graph_task() < 0 or self._is_left())
        if over:
            self.stop()
        return over

    def _is_left(self):
        node = _autograd_node()
        return node is not None and node._sequence_nr() < self.first

    def settle(self, read=None):
        """Charge what is recorded so far, because a line of the program needs it.

        Raises
        ------
        torch._dynamo.exc.Unsupported
            If it reads values, and all must be one graph.
        """
        if self.ends_if_over():
            return
        broken = not self.backward and not user_frame.is_called_from(_COLLECTIVES)
        if broken and read:
            self._refuse_break(f"{read} needs values of the GPU on the host")
        broken = broken and self._entries
        if broken:
            self.record.breaks[user_frame.line()] += 1
            self.record.device = current.find_device().index
        self.flush()
        if broken:
            self._called = False  # what follows is another graph

    def break_graph(self, what):
        """Charge what is recorded so far, because a compiler cannot trace a call, as of `print`.

        Raises
        ------
        torch._dynamo.exc.Unsupported
            If all must be one graph.
        """
        own = self._thread == threading.get_ident()  # and not, say, that of a progress bar
        if own and not self.backward:
            self._refuse_break(f"{what} cannot be traced")
            self.settle()

    def _refuse_break(self, reason):
        if self.settings.one_graph:
            raise find("torch._dynamo.exc:Unsupported")(
                f"{user_frame.line()}: {reason}, which breaks the graph, and fullgraph=True allows "
                "no break; move it out of the compiled code"
            )

    def flush(self):
        """Charge what is recorded so far; all that still exists is written."""
        self.end_graph(None)

    def see_gradient(self, gradient):
        """Note the gradient of a result that the region itself has computed, all of it.

        The program has not used the result: compiled code adds zeros.
        """
        value = self._known.get(gradient._block.address)
        made = next((e for e in self._entries if any(o and o.value == value for o in e.outs)), None)
        if made is None or value in self._inputs:
            return
        outside = any(x.value in self._inputs for x in seen_in(made.args))
        if not (getattr(made.op, "name", None) == "add" and outside):
            self._unused.add(value)

    def launch(
        self, name, flops=0, num_bytes=0, peak="float32", products=(), call=None, results=None
    ):
        """Record a kernel, see `simgpu.clock.machine.Sink`."""
        if self.ends_if_over():
            self.next.launch(name, flops, num_bytes, peak, products, call, results)
            return
        if _graph_task() != self._task:  # a backward pass begins or ends: compilers stop there
            self.flush()
            self._task = _graph_task()
        if call is None:
            self._record_constant(name, results)
        else:
            self._record(call, results)
        self._charges.append((name, flops, num_bytes, peak, products))

    def _record_constant(self, name, results):
        outs = [self._new(t) for t in tree_leaves(results) if isinstance(t, SimTensor)]
        self._entries.append(Entry(name, (), (), tuple(outs), not outs))

    def _record(self, call, results):
        op, kwargs = call.op, call.kwargs
        args = structure(call.args, self._see)
        kwargs = tuple([(k, structure(v, self._see)) for k, v in kwargs.items()]) if kwargs else ()
        outs = [
            self._new(t) if isinstance(t, SimTensor) and alias is None else None
            for t, alias in _with_aliases(op, results)
        ]
        if op.mutable:
            outs += [self._changed(t) for t in tensors_of(op, call.args, call.kwargs)[1]]
        alone = (self.backward and runs_sum_of_autograd()) or _is_complex(results)
        self._entries.append(Entry(op, args, kwargs, tuple(outs), alone, self._is_checkpointed()))

    def _is_checkpointed(self):
        hook = saving_hook()
        return hook is not None and id(hook) != self._around

    def _clear(self):
        self._entries, self._charges = [], []
        self._sizes = []  # of each value, bytes
        self._blocks = []  # of each value: weak reference
        self._known = {}  # address of a block -> its value now
        self._inputs = {}  # value -> block, kept until its memory may be used again
        self._in_place = set()
        self._parts = set()  # pairs: a value that a write to a part of a block made, the one before
        self._unused = set()
        self._first = {}  # address of a block that is changed -> the first value in it
        self._unsaved = set()  # values that autograd has not seen, such as states of optimizers

    def _value(self, block):
        self._sizes.append(block.size)
        self._blocks.append(weakref.ref(block))
        value = self._known[block.address] = len(self._sizes) - 1
        if not torch.is_grad_enabled():
            self._unsaved.add(value)
        return value

    def _value_of(self, block):
        found = self._known.get(block.address)
        if found is not None:
            return found
        value = self._value(block)
        self._inputs[value] = block
        recipe = _recipes.get(block)
        if recipe is not None:
            sources = tuple([(self._value_of(b), n) for b, n in recipe])
            out = Seen(value, block.size, (block.size,), (1,), 0, 1)
            self._entries.append(Entry(None, sources, (), (out,)))
            self._charges.append(None)
        return value

    def _see(self, tensor):
        data, block = tensor._data, tensor._block
        if not block.size:  # it has no address of its own
            return None
        num_bytes = data.nbytes
        if num_bytes > block.size or not data.is_contiguous():
            num_bytes = min(bytes_of((data,)), block.size)
        value = self._known.get(block.address)
        if value is None:
            value = self._value_of(block)
        return Seen(
            value, num_bytes, data.shape, data.stride(), data.storage_offset(), data.itemsize
        )

    def _new(self, tensor):
        if not tensor._block.size:
            return None
        value = self._known.get(tensor._block.address)
        if value is None:
            value = self._value(tensor._block)
        data = tensor._data
        return Seen(
            value, data.nbytes, data.shape, data.stride(), data.storage_offset(), data.itemsize
        )

    def _changed(self, tensor):
        if not isinstance(tensor, SimTensor):
            return None
        seen, block = self._see(tensor), tensor._block
        if seen is None:
            return None
        first = self._first.setdefault(block.address, seen.value)
        value = self._value(block)
        if seen.bytes < block.size:
            self._parts.add((value, seen.value))
        self._in_place.add((value, first, bool(block.num_bytes)))
        return seen._replace(value=value)

    def _settle(self, returned):
        self._pending.settle(self._known)  # what the host or another rank has written, or will
        if not self._entries:
            return
        copied = self._graph_inputs.take(block.address for block in self._inputs.values())
        alive, saved, dropped = self._fates(returned)
        plan = plan_of(Recorded(
            tuple(self._entries), tuple(self._sizes), frozenset(alive), frozenset(saved),
            frozenset(dropped), frozenset(self._in_place), frozenset(self._parts),
            frozenset(self._unused), self.backward,
        ))  # fmt: skip
        self.device.memory = self._memory
        call = 0.0 if self._called else self.settings.call_seconds
        try:
            held = self._run(plan, dropped, copied, call)
            self._note_recipes(plan, held)
            if current.ranks is None or not current.ranks.checks:  # else it runs once more
                self.record.plans[plan] += 1
                self.record.call_seconds += call
        finally:
            self.device.memory = self._pending
            self._clear()

    def _fates(self, returned):
        """Return the values that are read later, those that autograd alone holds, and freed inputs.

        `returned` are addresses, or None if all that exists is read.
        """
        made = {out.value for entry in self._entries if entry.op for out in entry.outs if out}
        alive, saved = set(), set()
        inputs = {block.address for block in self._inputs.values()}
        read = self._read() if self.backward else ()
        for v in made:
            block = self._blocks[v]()
            if block is not None and self._known.get(block.address) == v:
                own = returned is None or v in self._unsaved
                own = own or block.address in returned or block.address in inputs
                (alive if own else saved).add(v)
            elif self.backward and v in self._unsaved and v not in read:
                alive.add(v)  # a gradient that a hook has taken
            del block
        held = [v for v, block in self._inputs.items() if block.num_bytes]
        self._inputs.clear()
        return alive, saved, {v for v in held if self._blocks[v]() is None}

    def _read(self):
        return {x.value for e in self._entries for x in seen_in((e.args, e.kwargs))}

    def _run(self, plan, dropped, copied, call):
        """Allocate, launch and free as the plan says; return the blocks that are left, by value.

        `copied` are the bytes of inputs that a CUDA graph copies, `call` the host's seconds for a
        call.
        """
        device = self.device
        held = {v: Block(device, self._sizes[v]) for v in dropped}  # until their last kernel
        freed_later = set().union(*plan.freed)
        self._pay(call)
        if not plan.costs:
            plan.costs.extend(self._costs(plan, copied))
        self._graph_inputs.copy(copied, plan, device, self.next)
        device.launch_seconds = 0.0 if self.settings.one_launch else self._launch_seconds()
        try:
            for kernel, new, freed in zip(plan.kernels, plan.allocated, plan.freed, strict=True):
                for v in new:
                    held[v] = self._allocate(v, plan, stays=v not in freed_later)
                self.next.launch(*self._charge(kernel))
                for v in freed:
                    held.pop(v, None)
        finally:
            device.launch_seconds = None
        if self.settings.one_launch:
            self._graph_inputs.made(held.values())
        return held

    def _charge(self, kernel):
        """Return the arguments of `launch` for a kernel."""
        if kernel.names == [ZEROS]:
            return ZEROS, 0, kernel.bytes
        own = self._charges[kernel.entries[0]] if kernel.kind == EXTERN else None
        return own or (kernel.title, 0, kernel.bytes)

    def _costs(self, plan, copied):
        gpu, settings = self.device.gpu, self.settings
        eager = [charge for charge in self._charges if charge is not None]
        kernels = [self._charge(kernel) for kernel in plan.kernels]
        copies = [(COPY, 0, 2 * copied)] if copied else []
        launches = len(copies) + (1 if settings.one_launch else len(kernels))
        compiled = copies + kernels
        return (
            Cost(len(eager), _seconds(gpu, eager), self._eager_seconds() * len(eager)),
            Cost(len(compiled), _seconds(gpu, compiled), self._launch_seconds() * launches),
        )

    def _eager_seconds(self):
        """Return the host's time for a kernel of eager code."""
        return seconds_of(self.device.gpu)[self.backward]

    def _launch_seconds(self):
        """Return the host's time for a kernel of compiled code."""
        return min(self.settings.launch_seconds, self._eager_seconds())

    def _pay(self, call):
        """Charge the host for a call, and for the launch of a CUDA graph."""
        machine = self.device.machine
        with machine.lock:
            machine.host += call
            if self.settings.one_launch:
                machine.host += self._launch_seconds()
        self._called = True

    def _allocate(self, value, plan, stays):
        """Give the block of a value that stays its memory, or a new block that stands for it."""
        block = self._blocks[value]() if stays and value < len(self._blocks) else None
        if block is None or block.num_bytes or not block.size:
            return Block(self.device, plan.sizes[value])
        _recipes.pop(block, None)
        self._memory.take(block, rounded(plan.sizes[value]))
        return block

    def _note_recipes(self, plan, held):
        """Note how the backward pass computes again what was not kept."""
        for v, sources in plan.recipes.items():
            block = self._blocks[v]()
            if block is not None:
                found = [(self._source(s, held), n) for s, n in sources]
                _recipes[block] = [(source, n) for source, n in found if source is not None]

    def _source(self, value, held):
        """Return the block of a value that is kept, or of an input; None for one without bytes."""
        return held[value] if value in held else self._blocks[value]()


def _seen(value, num_bytes, data):
    shape, strides = data.shape, data.stride()
    return Seen(value, num_bytes, shape, strides, data.storage_offset(), data.itemsize)


def _with_aliases(op, results):
    """Return the results of an operation, each with the argument whose memory it shares."""
    if op.num_returns > 1:
        return zip(results, op.aliases, strict=True)
    alias = op.aliases[0] if op.aliases else None
    return [(t, alias) for t in (results if isinstance(results, list | tuple) else (results,))]


def _seconds(gpu, charges):
    return sum(gpu.seconds(*charge[1:]) for charge in charges)
