"""The process group of simulated GPUs, called by `torch.distributed`."""

from functools import partial

import torch
import torch.distributed as dist

from simgpu.backend.pytorch.replacements import find
from simgpu.backend.tensor import SimTensor
from simgpu.clock import current
from simgpu.clock.streams import Stream
from simgpu.clock.trace import Communication
from simgpu.naming import NAME, device_type
from simgpu.ranks.communication import describe, values
from simgpu.ranks.communication.call import Call
from simgpu.ranks.communication.checks import arguments
from simgpu.ranks.communication.messages import Messages
from simgpu.ranks.communication.order.batch import Batch
from simgpu.ranks.communication.waiting.in_flight import flatten
from simgpu.ranks.communication.waiting.work import WorkGroup
from simgpu.ranks.process import threads, torch_internals
from simgpu.ranks.process.torch_internals import name_of_reduction


class SimProcessGroup(dist.ProcessGroup):
    """A process group whose members are ranks of one `spawn`.

    Parameters
    ----------
    name : str
        Name of the group; disjoint groups may have the same name.
    rank, size : int
        This rank in the group, and the number of members.
    ranks : list of int
        The members, as global ranks.
    kinds : tuple of str, optional
        Types of the devices whose tensors it takes; default: the host and simulated GPUs.
    """

    def __init__(self, name, rank, size, ranks, kinds=None):
        super().__init__(rank, size)
        self._group_rank, self._size, self._members = rank, size, tuple(ranks or range(size))
        kinds = kinds or ("cpu", device_type())
        self.caller = arguments.Caller(self._members[rank], rank, size, {k == "cpu" for k in kinds})
        self._name, self.key = str(name), (str(name), self._members)
        self._world = current.ranks
        self._count = self.splits = 0  # of collectives and of calls of `split_group`
        self._messages = Messages(self, self._members)
        self._world.messages.append(self._messages)
        self._world.recorders.of_rank()  # which begins with the first group
        self._streams = {}
        self._callers = {place: threads.Callers() for place in ("host", "device")}
        self._batch = None  # while calls are coalesced
        self._is_destroyed = False
        backend = find(torch_internals.FAKE_GROUP)(rank, size)
        for kind in kinds:
            self._register_backend(
                torch.device(kind), dist.ProcessGroup.BackendType.CUSTOM, backend
            )

    def getBackendName(self):  # noqa: N802  (PyTorch's)
        """Return the name of the backend."""
        return NAME

    @property
    def group_name(self):
        """The name under which PyTorch finds the group."""
        return find(f"{torch_internals.C10D}:_world.pg_names").get(self, self._name)

    pg_name = group_name

    def rank(self):
        """Return this rank in the group."""
        return self._group_rank

    def size(self):
        """Return the number of members."""
        return self._size

    @property
    def num_calls(self):
        """The number of collectives that this rank has called in the group."""
        return self._count

    getSize, getRank = size, rank  # noqa: N815

    def abort(self):
        """Do nothing: there is nothing to release."""

    def shutdown(self):
        """Record that the program has destroyed the group."""
        self._is_destroyed = True

    def __repr__(self):
        return f"<simulated process group, ranks {self._members}, this is {self._group_rank}>"

    def _start_coalescing(self, device):
        self._batch = Batch()

    def _end_coalescing(self, device):
        batch, self._batch = self._batch, None
        works, batch.works = batch.works, []
        return WorkGroup(works)

    def start_batch(self, num_messages):
        """Take the next messages as one batch, as NCCL does those of `batch_isend_irecv`."""
        self._batch = Batch(num_messages)

    def _coalesce(self, call, outputs, inputs, opts):
        """Make a call for each of several tensors, in one launch."""
        outer, self._batch = self._batch, self._batch or Batch()
        works = [call(o, i, opts) for o, i in zip(outputs, inputs, strict=True)]
        self._batch = outer
        return WorkGroup(works)

    def _stream(self, *key):
        """Return a function that maps a device to this group's stream for `key` on it."""

        def find(device):
            if key not in self._streams:
                self._streams[key] = Stream.of(device)
            return self._streams[key]

        return find

    def check_owner(self):
        """Raise an error if the running rank uses the group of another, as if it were that."""
        threads.check_turn()
        arguments.check_owner(self.caller, self._world.scheduler.running.number)

    def _check_usable(self):
        self.check_owner()
        arguments.check_exists(self.caller, self._is_destroyed)

    def _describe(self, name):
        desc = self.group_desc
        label = "" if desc in ("", "default_pg", "undefined") else desc
        return Communication(name, name, label, self._size, f"comm {label}" if label else "")

    def _issue(self, name, given, filled, compute, opts=None, num_bytes=None, details="",
              outputs=None, root=0, blocks_host=False):  # fmt: skip
        """Issue this rank's part of a collective."""
        self._check_usable()
        # Those of gloo and NCCL are in no order.
        place = "device" if any(isinstance(t, SimTensor) for t in (*given, *filled)) else "host"
        self._callers[place].add(self.caller.rank, name)
        self._count += 1
        if num_bytes is None:
            num_bytes = sum(tensor.nbytes for tensor in given)
        is_async = getattr(opts, "asyncOp", True)
        return self._world.issue(Call(
            (self.key, self._count), self._describe(name), self._members, num_bytes, compute,
            f"{name} of {details or describe.in_memory(given)}", given, filled,
            filled if outputs is None else outputs,
            self._stream() if is_async or blocks_host else None,
            root=root, blocks_host=blocks_host, batch=self._batch,
        ))  # fmt: skip

    def allreduce(self, tensors, opts=None):
        """Reduce the tensors of all ranks, and give all ranks the result."""
        op = dist.ReduceOp.SUM if opts is None else opts.reduceOp
        arguments.all_reduce(self.caller, tensors, tensors, op)
        return self._issue(
            "all_reduce", tensors, tensors,
            partial(values.all_reduce, op=op), opts,
            details=f"{describe.in_memory(tensors)}, {name_of_reduction(op)}",
        )  # fmt: skip

    allreduce_coalesced = allreduce

    def broadcast(self, tensors, opts):
        """Copy the root's tensors to all ranks."""
        root = opts.rootRank
        arguments.broadcast(self.caller, tensors, root)
        mine = self._group_rank == root
        return self._issue(
            "broadcast", tensors if mine else [], [] if mine else tensors,
            partial(values.broadcast, root=root), opts,
            sum(t.nbytes for t in tensors), f"{describe.in_memory(tensors)}, {self._from(root)}",
            tensors, root,
        )  # fmt: skip

    def reduce(self, tensors, opts):
        """Reduce the tensors of all ranks, and give the root the result."""
        op, root = opts.reduceOp, opts.rootRank
        arguments.reduce(self.caller, tensors, op, root)
        return self._issue(
            "reduce", tensors, tensors if self._group_rank == root else [],
            partial(values.reduce, op=op, root=root), opts,
            details=f"{describe.in_memory(tensors)}, {name_of_reduction(op)}, {self._to(root)}",
            outputs=tensors, root=root,
        )  # fmt: skip

    def all_gather_single(self, output, input, opts=None):
        """Gather one tensor of every rank on all ranks, in a single tensor."""
        arguments.all_gather_single(self.caller, output, input)
        return self._issue(
            "all_gather", [input], [output], values.all_gather, opts, output.nbytes
        )  # fmt: skip

    def allgather(self, outputs, inputs, opts=None):
        """Gather one tensor of every rank on all ranks, in a list of tensors."""
        (many,) = outputs
        arguments.all_gather(self.caller, many, inputs)
        return self._issue(
            "all_gather", inputs, many, values.all_gather, opts, sum(t.nbytes for t in many),
            describe.sizes(many), outputs,
        )  # fmt: skip

    def allgather_coalesced(self, outputs, inputs, opts=None):
        """Call `allgather` for several tensors, on the host."""
        arguments.all_gather_coalesced(self.caller, inputs)
        lists = [[outputs[rank][i] for rank in range(self._size)] for i in range(len(inputs))]
        return WorkGroup([
            self.allgather([many], [one], opts) for many, one in zip(lists, inputs, strict=True)
        ])  # fmt: skip

    def all_gather_single_coalesced(self, outputs, inputs, opts=None):
        """Call `all_gather_single` for several tensors."""
        return self._coalesce(self.all_gather_single, outputs, inputs, opts)

    def reduce_scatter_single(self, output, input, opts=None):
        """Reduce the tensors of all ranks, and give each rank its part of the result."""
        op = dist.ReduceOp.SUM if opts is None else opts.reduceOp
        arguments.reduce_scatter_single(self.caller, output, input, op)
        return self._reduce_scatter([output], [input], op, opts)

    def reduce_scatter(self, outputs, inputs, opts=None):
        """Reduce lists of tensors of all ranks, and give each rank its element of the result."""
        op = dist.ReduceOp.SUM if opts is None else opts.reduceOp
        (many,) = inputs
        arguments.reduce_scatter(self.caller, outputs, many, op)
        return self._reduce_scatter(outputs, many, op, opts)

    def _reduce_scatter(self, outputs, inputs, op, opts):
        return self._issue(
            "reduce_scatter", inputs, outputs,
            partial(values.reduce_scatter, op=op), opts,
            details=f"{describe.in_memory(inputs, outputs)}, {name_of_reduction(op)}",
        )  # fmt: skip

    def reduce_scatter_single_coalesced(self, outputs, inputs, opts=None):
        """Call `reduce_scatter_single` for several tensors."""
        return self._coalesce(self.reduce_scatter_single, outputs, inputs, opts)

    def all_to_all_single(self, output, input, output_splits=None, input_splits=None, opts=None):
        """Send a part of a tensor to every rank, and receive one from each."""
        outputs, inputs = arguments.all_to_all_single(
            self.caller, output, input, output_splits, input_splits
        )
        return self._all_to_all(outputs, inputs, opts)

    def alltoall(self, outputs, inputs, opts=None):
        """Send a tensor to every rank, and receive one from each."""
        arguments.all_to_all(self.caller, outputs, inputs)
        return self._all_to_all(outputs, inputs, opts)

    def _all_to_all(self, outputs, inputs, opts):
        return self._issue(
            "all_to_all", inputs, outputs, values.all_to_all, opts,
            max(sum(t.nbytes for t in inputs), sum(t.nbytes for t in outputs)),
            f"{len(inputs)} parts of {describe.dtype(inputs[0])}",
        )  # fmt: skip

    def gather(self, outputs, inputs, opts):
        """Gather one tensor of every rank on the root."""
        return self._gather_or_scatter("gather", inputs, outputs, opts, inputs, self._to)

    def scatter(self, outputs, inputs, opts):
        """Send one of the root's tensors to each rank."""
        return self._gather_or_scatter("scatter", inputs, outputs, opts, outputs, self._from)

    def _gather_or_scatter(self, name, inputs, outputs, opts, own, direction):
        """Gather or scatter: the root has a tensor for each rank, a rank has its `own`."""
        root, compute = opts.rootRank, getattr(values, name)
        inputs, outputs = flatten(inputs), flatten(outputs)
        getattr(arguments, name)(self.caller, outputs, inputs, root)
        return self._issue(
            name, inputs, outputs, partial(compute, root=root), opts,
            own[0].nbytes * self._size, f"{describe.in_memory(own)}, {direction(root)}", root=root,
        )  # fmt: skip

    def barrier(self, opts=None):
        """Make the hosts of all ranks wait for each other."""
        for index in getattr(opts, "device_ids", None) or ():
            arguments.check_device(self.caller, index, self._world.rank)
        device = "cpu"
        if False in self.caller.takes:
            device = self._world.machine.devices[self._world.own_index()].torch_device
        token = torch.empty(1, device=device)
        return self._issue("barrier", [token], [], None, opts, details="all ranks",
                          blocks_host=True)  # fmt: skip

    def monitored_barrier(self, timeout=None, wait_all_ranks=False):
        """Wait for all, as gloo does; a rank that does not come is named by the deadlock error."""
        self.barrier().wait()

    def send(self, tensors, dst, tag=0):
        """Send a tensor to one rank."""
        return self._message(tensors, dst, tag, is_send=True)

    def recv(self, tensors, src, tag=0):
        """Receive a tensor from one rank."""
        return self._message(tensors, src, tag, is_send=False)

    def recv_anysource(self, tensors, tag=0):
        """Raise an error: NCCL cannot do it either, and its result may depend on timing."""
        raise NotImplementedError("recv() from any rank is not supported, as on NCCL; give src")

    def _message(self, tensors, peer, tag, is_send):
        self._check_usable()
        (tensor,), batch = tensors, self._batch
        if batch is not None and batch.count():
            self._batch = None
        has_own_queue = batch is None and self.bound_device_id is None
        what = self._describe("send")
        if has_own_queue:  # in a communicator of the two alone
            what = what._replace(ranks=2)
        return self._messages.issue(
            self._world, what, tensor, peer, tag, is_send,
            self._stream(peer) if has_own_queue else self._stream(), batch, has_own_queue,
        )  # fmt: skip

    def _from(self, root):
        return f"from rank {self._members[root]}"

    def _to(self, root):
        return f"to rank {self._members[root]}"

    # Names in other versions of PyTorch, and names that C++ calls.
    _allgather_base = all_gather_single
    _reduce_scatter_base = reduce_scatter_single
    allgather_into_tensor_coalesced = all_gather_single_coalesced
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced
    alltoall_base = all_to_all_single
