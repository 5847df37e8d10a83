"""The process group of simulated GPUs: what `torch.distributed` calls."""

import torch
import torch.distributed as dist

from simgpu.backend.pytorch.replacements import find
from simgpu.clock.streams import Stream
from simgpu.clock.trace import Communication
from simgpu.naming import NAME, device_type
from simgpu.ranks.communication import describe, values, world
from simgpu.ranks.communication.in_flight import flatten
from simgpu.ranks.communication.work import WorkGroup
from simgpu.ranks.process import torch_internals, user_frame
from simgpu.ranks.process.scheduler import RanksError


class SimProcessGroup(dist.ProcessGroup):
    """A process group whose members are ranks of one `spawn`.

    Parameters
    ----------
    name : str
        Of the group; groups that share no rank may have the same one.
    rank, size : int
        This rank's place in the group.
    ranks : list of int
        The members, as ranks of the whole job.
    """

    def __init__(self, name, rank, size, ranks):
        super().__init__(rank, size)
        self._place, self._size, self._members = rank, size, tuple(ranks or range(size))
        self._name, self._key = str(name), (str(name), self._members)
        self._world = world.active
        self._count = 0
        self._messages = {}  # how many, by sender, receiver and tag
        self._streams = {}
        self._coalesced = None
        backend = find(torch_internals.FAKE_GROUP)(rank, size)
        for kind in ("cpu", device_type()):
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
        """Return this rank's place in the group."""
        return self._place

    def size(self):
        """Return the number of members."""
        return self._size

    getSize, getRank = size, rank  # noqa: N815

    def abort(self):
        """Nothing is to be ended."""

    shutdown = abort

    def __repr__(self):
        return f"<simulated process group, ranks {self._members}, this is {self._place}>"

    def _start_coalescing(self, device):
        self._coalesced = []

    def _end_coalescing(self, device):
        works, self._coalesced = self._coalesced, None
        return WorkGroup(works)

    def _stream(self, *key):
        """Return the function that finds this group's stream for some purpose, on a device."""

        def find(device):
            if key not in self._streams:
                self._streams[key] = Stream.of(device)
            return self._streams[key]

        return find

    def check_owner(self):
        """Refuse a group that another rank has made: for that one it would count and wait.

        Raises
        ------
        RanksError
            It says why that may be so.
        """
        rank, own = self._world.rank.number, self._members[self._place]
        if rank != own:
            raise RanksError(
                f"rank {rank} communicates ({user_frame.line()}) in a group that rank {own} has "
                "made. Ranks are threads of one process, and share the variables of modules: a "
                "global has what the last rank put there. Keep groups in what each rank makes for "
                "itself "
                "(a mesh, a module, an argument), or run the script by simgpu run"
            )

    def _describe(self, name):
        desc = self.group_desc
        label = "" if desc in ("", "default_pg", "undefined") else desc
        return Communication(name, name, label, self._size, f"comm {label}" if label else "")

    def _issue(self, name, given, filled, compute, opts=None, num_bytes=None, details="",
              outputs=None, root=0, blocks_host=False):  # fmt: skip
        """Issue this rank's part of a collective."""
        self.check_owner()
        self._count += 1
        given, filled = flatten(given), flatten(filled)
        if num_bytes is None:
            num_bytes = sum(tensor.nbytes for tensor in given)
        is_async = getattr(opts, "asyncOp", True)
        work = self._world.issue(
            (self._key, self._count),
            (self._describe(name), self._members, num_bytes, compute, root),
            f"{name} of {details or describe.sizes(given)}",
            given, filled,
            filled if outputs is None else outputs,
            self._stream() if is_async or blocks_host else None,
            blocks_host=blocks_host,
        )  # fmt: skip
        if self._coalesced is not None:
            self._coalesced.append(work)
        return work

    def allreduce(self, tensors, opts=None):
        """Reduce tensors of all ranks, for all ranks."""
        op = dist.ReduceOp.SUM if opts is None else opts.reduceOp
        return self._issue(
            "all_reduce", tensors, tensors,
            lambda given, filled: values.all_reduce(given, filled, op), opts,
            details=f"{describe.sizes(tensors)}, {describe.op_name(op)}",
        )  # fmt: skip

    allreduce_coalesced = allreduce

    def broadcast(self, tensors, opts):
        """Give the root's tensors to all ranks."""
        root = opts.rootRank
        mine = self._place == root
        return self._issue(
            "broadcast", tensors if mine else [], [] if mine else tensors,
            lambda given, filled: values.broadcast(given, filled, root), opts,
            sum(t.nbytes for t in tensors), f"{describe.sizes(tensors)}, {self._from(root)}",
            tensors, root,
        )  # fmt: skip

    def reduce(self, tensors, opts):
        """Reduce tensors of all ranks, for the root."""
        op, root = opts.reduceOp, opts.rootRank
        return self._issue(
            "reduce", tensors, tensors if self._place == root else [],
            lambda given, filled: values.reduce(given, filled, op, root), opts,
            details=f"{describe.sizes(tensors)}, {describe.op_name(op)}, {self._to(root)}",
            outputs=tensors, root=root,
        )  # fmt: skip

    def all_gather_single(self, output, input, opts=None):
        """Give a tensor of every rank to all ranks, as one tensor."""
        return self._issue(
            "all_gather", [input], [output], values.all_gather, opts, output.nbytes
        )  # fmt: skip

    def allgather(self, outputs, inputs, opts=None):
        """Give a tensor of every rank to all ranks, as many tensors."""
        return self._issue(
            "all_gather", inputs, outputs, values.all_gather, opts, inputs[0].nbytes * self._size,
            describe.sizes(flatten(outputs)), outputs,
        )  # fmt: skip

    def allgather_coalesced(self, outputs, inputs, opts=None):
        """As `allgather`, of several tensors."""
        lists = [[outputs[rank][i] for rank in range(self._size)] for i in range(len(inputs))]
        return WorkGroup([
            self.allgather([many], [one], opts) for many, one in zip(lists, inputs, strict=True)
        ])  # fmt: skip

    def all_gather_single_coalesced(self, outputs, inputs, opts=None):
        """As `all_gather_single`, of several tensors."""
        return WorkGroup(
            [self.all_gather_single(o, i, opts) for o, i in zip(outputs, inputs, strict=True)]
        )

    def reduce_scatter_single(self, output, input, opts=None):
        """Reduce tensors of all ranks, and give each rank its part."""
        return self.reduce_scatter([output], [input], opts)

    def reduce_scatter(self, outputs, inputs, opts=None):
        """As `reduce_scatter_single`, from many tensors."""
        op = dist.ReduceOp.SUM if opts is None else opts.reduceOp
        return self._issue(
            "reduce_scatter", inputs, outputs,
            lambda given, filled: values.reduce_scatter(given, filled, op), opts,
            details=f"{describe.sizes(flatten(inputs))}, {describe.op_name(op)}",
        )  # fmt: skip

    def reduce_scatter_single_coalesced(self, outputs, inputs, opts=None):
        """As `reduce_scatter_single`, of several tensors."""
        return WorkGroup(
            [self.reduce_scatter_single(o, i, opts) for o, i in zip(outputs, inputs, strict=True)]
        )

    def all_to_all_single(self, output, input, output_splits=None, input_splits=None, opts=None):
        """Give a part to every rank, and get one from each."""

        def split(tensor, sizes):
            return tensor.split(list(sizes)) if sizes else tensor.chunk(self._size)

        return self.alltoall(split(output, output_splits), split(input, input_splits), opts)

    def alltoall(self, outputs, inputs, opts=None):
        """Give a tensor to every rank, and get one from each."""
        return self._issue(
            "all_to_all", inputs, outputs, values.all_to_all, opts,
            max(sum(t.nbytes for t in inputs), sum(t.nbytes for t in outputs)),
            f"{len(inputs)} parts of {describe.dtype(inputs[0])}",
        )  # fmt: skip

    def gather(self, outputs, inputs, opts):
        """Give a tensor of every rank to the root."""
        direction = self._to(opts.rootRank)
        return self._with_one_for_each("gather", inputs, outputs, opts, inputs, direction)

    def scatter(self, outputs, inputs, opts):
        """Give every rank its one of the root's tensors."""
        direction = self._from(opts.rootRank)
        return self._with_one_for_each("scatter", inputs, outputs, opts, outputs, direction)

    def _with_one_for_each(self, name, inputs, outputs, opts, own, direction):
        """Gather or scatter: the root has a tensor for each rank, a rank has its `own`."""
        root, compute = opts.rootRank, getattr(values, name)
        return self._issue(
            name, inputs, outputs, lambda given, filled: compute(given, filled, root), opts,
            own[0].nbytes * self._size, f"{describe.sizes(own)}, {direction}", root=root,
        )  # fmt: skip

    def barrier(self, opts=None):
        """Let the hosts of all ranks wait for each other."""
        token = torch.empty(1, device=torch.device(device_type(), self._world.own_index()))
        return self._issue("barrier", [token], [], None, opts, details="all ranks",
                          blocks_host=True)  # fmt: skip

    def send(self, tensors, dst, tag=0):
        """Send a tensor to one rank."""
        return self._message(tensors, [], self._place, dst, tag)

    def recv(self, tensors, src, tag=0):
        """Receive a tensor from one rank."""
        return self._message([], tensors, src, self._place, tag)

    def recv_anysource(self, tensors, tag=0):
        """Refuse: who would come first depends on chance, and NCCL cannot do it either."""
        raise NotImplementedError("recv() from any rank; name the source, as for NCCL")

    def _message(self, given, filled, source, target, tag):
        self.check_owner()
        pair = source, target, tag
        self._messages[pair] = number = self._messages.get(pair, 0) + 1
        tensors = given or filled
        ranks = self._members[source], self._members[target]
        other = target if given else source
        if self._members[other] not in self._world.scheduler.by_number:
            raise RanksError(
                f"rank {self._members[self._place]} has a message for or from rank "
                f"{self._members[other]} ({user_frame.line()}), which does not run; let both ends "
                "run"
            )
        verb = f"send to rank {ranks[1]}" if given else f"recv from rank {ranks[0]}"
        work = self._world.issue(
            (self._key, *pair, number),
            (self._describe("send"), ranks, tensors[0].nbytes, values.send),
            verb, given, filled, tensors,
            self._stream(other, bool(given)),
            same=f"a message of {describe.sizes(tensors)}",
        )  # fmt: skip
        if self._coalesced is not None:
            self._coalesced.append(work)
        return work

    def _from(self, root):
        return f"from rank {self._members[root]}"

    def _to(self, root):
        return f"to rank {self._members[root]}"

    # Names of other versions of PyTorch, and those by which C++ participants.
    _allgather_base = all_gather_single
    _reduce_scatter_base = reduce_scatter_single
    allgather_into_tensor_coalesced = all_gather_single_coalesced
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced
    alltoall_base = all_to_all_single
