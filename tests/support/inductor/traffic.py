"""Bytes that a node of Inductor's schedule reads and writes."""

from math import inf, prod

from torch._inductor.dependencies import MemoryDep, StarDep
from torch._inductor.utils import get_dtype_size
from torch._inductor.virtualized import V


def traffic(node):
    """Return the bytes that a kernel reads and writes, as two numbers.

    Inductor's own count, `get_read_write_buffers_sizes`, takes a buffer as a whole where several
    operations are in a kernel. This one takes of each buffer what the indices touch, so that a
    part of a tensor is a part, and a gather from a table costs what it gathers.
    """
    sizes = node.get_read_write_buffer_accesses(include_reads=True, include_writes=True)
    parts = node.get_nodes()
    written = {dep.name for part in parts for dep in part.read_writes.writes}
    totals = [0, 0]
    for name, size in sizes.items():
        if name in written and not is_used_outside(name, node):
            continue
        accesses = set(accesses_of(name, parts, name in written))
        totals[name in written] += min(size, sum(numel for _, numel in accesses) * itemsize(name))
    return tuple(totals)


def is_used_outside(name, node):
    """Return whether another kernel, or what is behind the graph, reads a buffer of a kernel."""
    users = {user.node for user in node.scheduler.name_to_buf[name].users}
    return not users <= set(node.get_nodes())


def accesses_of(name, parts, is_written):
    """Yield each index of a buffer in parts of a kernel, with how many elements it touches."""
    for part in parts:
        for dep in part.read_writes.writes if is_written else part.read_writes.reads:
            if dep.name == name:
                yield from accesses(dep, part)


def accesses(dep, part):
    """Yield the index of a dependency and the elements that it touches, if it touches any."""
    if isinstance(dep, StarDep):
        if part.is_extern():
            yield None, inf
        elif dep.mode == "atomic_add":  # to what is there; else it only orders kernels
            yield None, iterations(part)
    elif isinstance(dep, MemoryDep):
        if dep.is_indirect():
            yield (dep.index, dep.size), iterations(part)
        else:
            dep = dep.normalize_with_stride_order()
            yield (dep.index, dep.size), number(dep.get_numel())


def iterations(part):
    """Return how often the body of a part's loops runs."""
    return prod(number(size) for sizes in part.get_ranges() for size in sizes)


def number(expression):
    """Return the value of a size."""
    return V.graph.sizevars.optimization_hint(expression, fallback=0)


def itemsize(name):
    """Return the bytes of an element of a buffer, 1 if it has several types."""
    try:
        return get_dtype_size(V.graph.get_dtype(name))
    except NotImplementedError:
        return 1
