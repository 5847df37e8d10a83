"""What a compiled forward pass keeps for the backward pass: a minimum cut.

Eager autograd keeps what the formulas of its operations need. AOTAutograd keeps values from which
these can be had again by pointwise operations alone, as few bytes as possible
(`min_cut_rematerialization_partition` in torch/_functorch/partitioners.py; the idea is from
Horace He's *Min-cut optimal recomputation*, 2022). What is kept here is the cheapest set of values
between those that cannot be computed again and those that eager autograd has kept.
"""

from heapq import heappop, heappush

import networkx

from simgpu.compiled.nodes import COLUMNS, EXTERN, POINTWISE, ROWS

_FARTHEST = 100  # nodes from the backward pass, for the weight of a value
_GROWTH = 1.1  # of that weight, a node
_CHAIN = 100  # nodes that may be done again in one chain


def _is_fused(node):
    """Whether the partitioner takes an operation to be fused with others."""
    return node.kind in (POINTWISE, ROWS, COLUMNS) and node.name not in _APART


def _may_repeat(node):
    return node.kind == POINTWISE and not node.once and node.name not in _APART


# Neither fused nor done again: they are not in the partitioner's list of operations.
_APART = {
    "embedding", "cat", "stack", "constant_pad_nd", "slice_backward", "select_backward", "flip",
    "roll", "repeat", "upsample_nearest2d",
}  # fmt: skip


class Forward:
    """The nodes of a forward pass, and what its backward pass needs.

    Parameters
    ----------
    nodes : list of Node
    sizes : list of int
        Bytes of each value.
    free : set of int
        Values that exist in any case: inputs and outputs.
    needed : set of int
        Values that eager autograd has kept.
    marked : set of int
        Those of them that are not computed again.
    """

    def __init__(self, nodes, sizes, free, needed, marked=frozenset()):
        self.nodes, self.sizes, self.free, self.needed = nodes, sizes, free, needed
        self.marked = marked
        self.producer = {v: i for i, node in enumerate(nodes) for v, _ in node.writes}
        self.users = {}
        for i, node in enumerate(nodes):
            for v, *_ in node.reads:
                self.users.setdefault(v, []).append(i)
        self.inputs = {v for node in nodes for v, *_ in node.reads} - self.producer.keys()

    def kept(self) -> set:
        """Return the values that are written for the backward pass, inputs and outputs apart."""
        forced = {v for v in self.needed if v not in self.producer or self._is_multiplied(v)}
        forced |= self.marked
        cut = self._cut(forced, self._banned())
        return (cut | forced) - self.inputs

    def _cut(self, forced, banned):
        graph, seen, stack = networkx.DiGraph(), set(), list(self.needed)
        distance = self._distances()
        for v in self.needed:
            graph.add_edge(("out", v), "sink")
        while stack:
            v = stack.pop()
            if v in seen:
                continue
            seen.add(v)
            i = self.producer.get(v)
            weight = 1e-3
            if v not in self.free:
                far = _GROWTH ** min(distance.get(v, 1), _FARTHEST)
                weight += self.sizes[v] * far * (1 if self._is_written(v) else 2)
            graph.add_edge(("in", v), ("out", v), capacity=weight)
            if i is None or v in forced or i in banned:
                graph.add_edge("source", ("in", v))
                continue
            for read, *_ in self.nodes[i].reads:
                graph.add_edge(("out", read), ("in", v))
                stack.append(read)
        if "source" not in graph:
            return set()
        _, (reached, _) = networkx.minimum_cut(graph, "source", "sink")
        return {v for v in seen if ("in", v) in reached and ("out", v) not in reached}

    def _is_multiplied(self, v):
        return any(self.nodes[u].kind == EXTERN for u in self.users.get(v, ()))

    def _is_written(self, v):
        """Whether a kernel of the forward pass writes a value in any case."""
        i = self.producer.get(v)
        if i is None or self.nodes[i].kind != POINTWISE:
            return True
        return not all(_is_fused(self.nodes[u]) for u in self.users.get(v, ()))

    def _distances(self):
        """Return how many nodes each value is from the backward pass."""
        found = dict.fromkeys(self.needed, 1)
        for node in reversed(self.nodes):
            least = min((found[v] for v, _ in node.writes if v in found), default=None)
            if least is not None:
                for v, *_ in node.reads:
                    found[v] = min(found.get(v, least + 1), least + 1)
        return found

    def _banned(self):
        """Return the numbers of the nodes that are not done again."""
        nodes = self.nodes
        banned = {i for i, node in enumerate(nodes) if not _may_repeat(node)}
        for v, users in self.users.items():
            i = self.producer.get(v)
            if len(users) > 1 and i is not None and _is_fused(nodes[i]):
                first = self._first_unfusible(users)
                banned |= {u for u in users if u > first and _is_fused(nodes[u])}
        return banned | self._ends_of_chains(banned)

    def _first_unfusible(self, users):
        """Return the first node that does not fuse, of all that follow from the users of a value.

        What uses the value after it would read it again: it is used too far apart.
        """
        last = max(users)
        heap = [(u, True) for u in sorted(set(users))]
        seen = set()
        while heap:
            i, fuses = heappop(heap)
            if not fuses:
                return i
            if i in seen:
                continue
            seen.add(i)
            for v, _ in self.nodes[i].writes:
                for u in self.users.get(v, ()):
                    if u <= last:
                        heappush(heap, (u, self._fuse(i, u)))
        return last

    def _fuse(self, i, u):
        return all(_is_fused(self.nodes[x]) for x in (i, u))

    def _ends_of_chains(self, banned):
        found, seen = set(), set()
        for start in range(len(self.nodes)):
            heap = [start]
            while heap:
                i = heappop(heap)
                if i in seen:
                    continue
                seen.add(i)
                if i > start + _CHAIN and not heap:
                    found.add(i)
                    break
                for v, _ in self.nodes[i].writes:
                    for u in self.users.get(v, ()):
                        if u not in banned and u not in found and self._fuse(i, u):
                            heappush(heap, u)
        return found

    def recipe(self, value, kept) -> tuple:
        """Return the values, with bytes, from which a value that is not kept is computed again."""
        if value is None:
            return ()
        base = kept | self.inputs | self.free
        found, seen, stack = {}, set(), [(value, self.sizes[value])]
        while stack:
            v, num_bytes = stack.pop()
            if v in base or v not in self.producer:
                found[v] = max(found.get(v, 0), num_bytes)
            elif v not in seen:
                seen.add(v)
                stack += [read[:2] for read in self.nodes[self.producer[v]].reads]
        return tuple(found.items())
