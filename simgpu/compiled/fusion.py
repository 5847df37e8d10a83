"""Which nodes of a region one kernel does, and what it reads and writes.

Pointwise values are computed where they are needed, unless that would read too much twice (lowering
in torch/_inductor/graph.py and ir.py). Then nodes that visit the same elements and share data
become one kernel, those that share most bytes first (torch/_inductor/scheduler.py).
"""

from dataclasses import dataclass, field

from simgpu.compiled.nodes import AGAIN, COLUMNS, EXTERN, POINTWISE, ROWS, SCATTER, SEPARATE

# Inductor's defaults (torch/_inductor/config.py).
REUSED_READS = 4  # realize_reads_threshold: of a value that several nodes use
READS = 8  # realize_acc_reads_threshold: of any value
REUSED_STEPS = 30  # realize_opcount_threshold: of a value that several nodes use
MOST_FUSED = 64  # max_fusion_size

# Sums of rows and of columns of the same data are made in one kernel, if there is enough of it
# (MixOrderReduction in scheduler.py).
LARGE, MANY_ROWS = 5 * 2**20, 4096

# Long sums for few results are made in parts, which another kernel adds up (choose_num_splits in
# ir.py; how many depends on the GPU).
SPLIT_LENGTH, SPLIT_ELEMENTS, SPLIT_RESULTS, PARTS = 256, 2**15, 2**14, 64

BOTH = "both"  # a kernel that sums rows and columns
SECOND = "second"  # a kernel that adds up parts of sums
_FUSED = {POINTWISE, ROWS, COLUMNS, BOTH}
MOST_CHARACTERS = 80  # of a kernel's name
_SHORT = {EXTERN: "extern", ROWS: "red", COLUMNS: "red", BOTH: "red", SECOND: "red"}
SMALL, SHARED = 4096, 0.1  # bytes, and share of what is read, that are no reason to fuse


@dataclass(eq=False)
class Kernel:
    """A kernel of a compiled region.

    Attributes
    ----------
    kind : str
        A kind of `simgpu.compiled.nodes`; what is not EXTERN is fused code.
    n, rows : int
        As of a `Node`.
    names : list of str
        The operations in it.
    reads : dict
        Bytes by value and part of it, as in the `reads` of a `Node`; when all is fused, by value.
    writes : dict
        Bytes by value.
    entries : list of int
        Numbers of the entries on the tape that it belongs to.
    sums, row_sums : set of int
        Values that are known only when the kernel ends, and those that are known after each row.
    """

    kind: str
    n: int
    rows: int
    names: list = field(default_factory=list)
    reads: dict = field(default_factory=dict)
    writes: dict = field(default_factory=dict)
    entries: list = field(default_factory=list)
    sums: set = field(default_factory=set)
    row_sums: set = field(default_factory=set)

    @property
    def bytes(self) -> int:
        """Bytes that it reads and writes."""
        return sum(self.reads.values()) + sum(self.writes.values())

    @property
    def title(self) -> str:
        """What it is called in a timeline, as Inductor calls its kernels."""
        kind = _SHORT.get(self.kind, "poi")
        names = dict.fromkeys(name.strip("_") for name in self.names if name != AGAIN)
        return f"triton_{kind}_fused_{'_'.join(names) or AGAIN}"[:MOST_CHARACTERS]

    def add(self, node, reads, names) -> None:
        """Add a node, with what it reads and the operations in it once others are inlined."""
        if self.kind == POINTWISE and node.kind == ROWS:
            self.kind, self.n, self.rows = ROWS, node.n, node.rows
        if self.kind == ROWS and node.kind == COLUMNS:
            self.kind = BOTH
        if node.kind in (COLUMNS, SCATTER):
            self.sums.update(v for v, _ in node.writes)
        if node.kind == ROWS:
            self.row_sums.update(v for v, _ in node.writes)
        self.names += names
        self.entries.append(node.entry)
        _merge(self.reads, reads)
        self.writes.update(node.writes)

    def takes(self, node, reads) -> bool:
        """Whether a node fits into the kernel: it visits the same elements, and shares data."""
        if self.kind == SECOND:
            same = node.kind == POINTWISE and node.n == self.n
            return same and any(v in self.writes for v, _ in reads)
        if not _FUSED.issuperset((self.kind, node.kind)) or len(self.entries) >= MOST_FUSED:
            return False
        if any(v in self.sums for v, _ in reads) or not self._shares(reads):
            return False
        if node.kind == COLUMNS:
            return self._takes_columns(node)
        if self.kind in (COLUMNS, POINTWISE):
            return self.kind == POINTWISE and self.n == node.n
        if node.kind == ROWS:
            return self.kind == ROWS and (self.n, self.rows) == (node.n, node.rows)
        if self.kind == BOTH and not any(v in self.row_sums for v, _ in reads):
            return False
        return node.n in (self.n, self.rows)

    def _shares(self, reads):
        """Whether a node reads what the kernel writes, or much of what it reads."""
        if any(v in self.writes for v, _ in reads):
            return True
        shared = sum(b for key, b in reads.items() if key in self.reads)
        return shared > max(SMALL, SHARED * sum(reads.values()))

    def _takes_columns(self, node):
        """Whether sums of columns can be made beside these, or in a pass with sums of rows."""
        if self.n != node.n:
            return False
        if self.kind == COLUMNS:
            return self.rows == node.rows
        rows, columns = self.rows, node.rows
        same = self.kind in (ROWS, BOTH) and rows * columns == self.n
        return same and self.n >= LARGE and rows >= max(2 * columns, MANY_ROWS)


def fuse(nodes, sizes, must, late=frozenset(), written=frozenset()) -> list:
    """Return the kernels that do some nodes, in order.

    Parameters
    ----------
    nodes : list of Node
    sizes : list of int
        Bytes of each value.
    must : set of int
        Values that are read after the region.
    late : set of int
        Numbers of the entries on the tape that are done as late as possible.
    written : set of int
        Values that are written, if they are needed at all.
    """
    nodes, must = _without_unused(nodes, must), must | written
    kernels, where = [], {}
    for node, reads, names in _inlined(nodes, sizes, must):
        first = max((where[v] for v, _ in reads if v in where), default=0)
        place = _best(kernels, first, node, reads)
        if place is None:
            place = _delayed(kernels, first, node, reads, late)
            if place is not None:
                where = {v: k for k, kernel in enumerate(kernels) for v in kernel.writes}
        if place is None:
            place = len(kernels)
            kernels.append(Kernel(node.kind, node.n, node.rows))
        kernels[place].add(node, reads, names)
        if _is_split(node):
            kernels.append(_second(kernels[place], node, sizes))
            place = len(kernels) - 1
        where.update((v, place) for v, _ in node.writes)
    for kernel in kernels:
        kernel.reads = _by_value(kernel.reads, sizes)
    _drop_inner(kernels, must)
    return kernels


def _by_value(reads, sizes):
    """Return the bytes that are read of each value, at most all."""
    total = {}
    for (v, _), num_bytes in reads.items():
        total[v] = min(total.get(v, 0) + num_bytes, max(sizes[v], num_bytes))
    return total


def _is_split(node):
    long = node.n >= max(SPLIT_ELEMENTS, SPLIT_LENGTH * node.rows)
    return node.kind == COLUMNS and long and node.rows <= SPLIT_RESULTS


def _second(kernel, node, sizes):
    """Let a kernel write parts of the sums of a node; return the kernel that adds them up."""
    sizes.append(PARTS * 4 * node.rows * len(node.writes))
    parts = len(sizes) - 1
    for v, _ in node.writes:
        del kernel.writes[v]
    kernel.writes[parts] = sizes[parts]
    return Kernel(
        SECOND,
        node.rows,
        1,
        [node.name],
        {(parts, -1): sizes[parts]},
        dict(node.writes),
        [node.entry],
    )


def _best(kernels, first, node, reads):
    """Return the number of the kernel, from `first` on, that shares most with a node, or None."""
    best, place = 0, None
    if node.kind == EXTERN:
        return None
    for k in range(len(kernels) - 1, first - 1, -1):
        kernel = kernels[k]
        if kernel.takes(node, reads):
            score = sum(
                b * (2 if key[0] in kernel.writes else key in kernel.reads)
                for key, b in reads.items()
            )
            if score > best:
                best, place = score, k
    return place


def _delayed(kernels, first, node, reads, late):
    """Return the number of an earlier kernel that a node joins, moved behind what both need.

    Sums of columns are joined so, and what a checkpoint does again; None if there is none.
    """
    for k in range(first - 1, -1, -1):
        kernel = kernels[k]
        moves = COLUMNS in (node.kind, kernel.kind) or late.issuperset(kernel.entries)
        if moves and kernel.n == node.n and kernel.takes(node, reads):
            after = _followers(kernels, k)
            if not any(v in kernels[j].writes for j in after[1:] for v, _ in reads):
                moved = [kernels[j] for j in after]
                kernels[k:] = [x for x in kernels[k:] if x not in moved] + moved
                return len(kernels) - len(moved)
    return None


def _followers(kernels, k):
    """Return the numbers of a kernel and of all that need what it makes."""
    made, found = set(kernels[k].writes), [k]
    for j in range(k + 1, len(kernels)):
        if not made.isdisjoint(v for v, _ in kernels[j].reads):
            made.update(kernels[j].writes)
            found.append(j)
    return found


def _without_unused(nodes, must):
    used, live = set(must), []
    for node in reversed(nodes):
        if any(v in used for v, _ in node.writes) or not node.writes:
            live.append(node)
            used.update(v for v, *_ in node.reads)
    return live[::-1]


def _inlined(nodes, sizes, must):
    """Yield the nodes that write what they compute, what each reads, and what is done in it."""
    users = {}
    for i, node in enumerate(nodes):
        for v, *_ in node.reads:
            users.setdefault(v, set()).add(i)
    leaves, inner = {}, {}  # of each value that is computed where it is needed
    for node in nodes:
        reads, names, taken = {}, [], set()
        for v, num_bytes, part in node.reads:
            if v not in leaves:
                _merge(reads, {(v, part): num_bytes})
                continue
            if id(inner[v]) not in taken:  # the values of a list have one
                names += inner[v]
                taken.add(id(inner[v]))
            share = min(1.0, num_bytes / sizes[v]) if sizes[v] else 1.0
            for (leaf, place), b in leaves[v].items():
                if share == 1 or b <= SMALL:
                    _merge(reads, {(leaf, place): b})
                else:  # another part of the leaf than other parts of the value
                    _merge(reads, {(leaf, (place, part)): int(b * share)})
        uses = set().union(*(users.get(v, ()) for v, _ in node.writes))
        own, names = len(reads) / node.width, [*names, node.name]
        if node.kind == POINTWISE and not (
            node.once
            or any(v in must for v, _ in node.writes)
            or any(nodes[u].kind in (EXTERN, SEPARATE) for u in uses)
            or (len(uses) > 1 and (own > REUSED_READS or len(names) > REUSED_STEPS))
            or own > READS
        ):
            for v, _ in node.writes:
                leaves[v], inner[v] = reads, names
            continue
        yield node, reads, names


def _merge(reads, more):
    for key, num_bytes in more.items():
        reads[key] = max(reads.get(key, 0), num_bytes)


def _drop_inner(kernels, must):
    """Neither write nor read what only the kernel that makes it reads."""
    readers = {}
    for k, kernel in enumerate(kernels):
        for v in kernel.reads:
            readers.setdefault(v, set()).add(k)
    for k, kernel in enumerate(kernels):
        if kernel.kind == EXTERN:
            continue
        for v in list(kernel.writes):
            inner = v not in must and readers.get(v, set()) <= {k}
            if inner:
                del kernel.writes[v]
            kernel.reads.pop(v, None)
