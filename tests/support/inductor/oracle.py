"""What PyTorch's own compiler makes of a program: its kernels, forward and backward.

Inductor schedules for Triton without a GPU and without the package ``triton``. `kernels_of` has a
program traced on the CPU, moves the graph to an A100 that is not there (`on_gpu`, `as_gpu`), and
lets Inductor go on up to its schedule; no code is generated, and nothing is computed.

It cannot judge

- attention: the operation is that of the CPU, of kind "extern" as a GPU's would be; a copy that its
  backward pass alone needs is left out. Patterns that Inductor replaces by it are the CPU's;
- products and convolutions: they are "extern", and what Inductor would try out on a GPU, as padding
  odd sizes, is not done;
- autocast, where that of the CPU differs from a GPU's (`support.inductor.transformers`);
- what autograd does outside of the graphs, as adding a gradient to one that is there.

Sums are split in two kernels, and a norm's gradients joined in one, as on a GPU. All of this is
private to Inductor, and may change with any release of PyTorch.
"""

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from unittest import mock

import torch
from support.inductor.traffic import number, traffic
from torch._guards import TracingContext
from torch._inductor import config, decomposition, ir, scheduler
from torch._inductor.codegen.triton import TritonScheduling
from torch._inductor.compile_fx import (
    _recursive_post_grad_passes,
    _recursive_record_original_output_strides,
    compile_fx,
    fake_tensor_prop,
    view_to_reshape,
)
from torch._inductor.debug import DebugContext
from torch._inductor.dependencies import MemoryDep
from torch._inductor.fx_passes import post_grad
from torch._inductor.graph import GraphLowering
from torch._inductor.runtime.hints import DeviceProperties
from torch._inductor.virtualized import V
from torch._ops import OpOverload
from torch._prims_common import suggest_memory_format
from torch.fx.node import map_aggregate
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._pytree import tree_map

OF_THE_CPU = "_scaled_dot_product_flash_attention_for_cpu_backward"
GPU = torch.device("cuda:0")
FORWARD, BACKWARD = "forward", "backward"
A100 = DeviceProperties(
    type="cuda",
    index=0,
    multi_processor_count=108,
    cc=80,
    major=8,
    regs_per_multiprocessor=65_536,
    max_threads_per_multi_processor=2048,
    max_threads_per_block=1024,
    warp_size=32,
)


@dataclass(frozen=True)
class InductorKernel:
    """A kernel of Inductor's schedule.

    Attributes
    ----------
    kind : str
        "extern" (a product, a convolution, attention, a sort), "pointwise", "row" (a sum over
        elements that lie beside each other), "column" (another sum), "both" (in one kernel),
        "foreach" (a pass over lists) or "template".
    operations : list of str
        Names of the ATen operations that it computes, all or in part.
    reads, writes : int
        Bytes: of each buffer what the indices touch, at most all of it. Where an index is itself
        read, as in a gather or a scatter, as many elements as there are indices.
    is_second : bool
        Whether it only adds up the sums of parts, which another kernel has written.
    whole : int
        Bytes as Inductor counts them, read and written together: of each buffer all of it.
    """

    kind: str
    operations: list[str]
    reads: int
    writes: int
    is_second: bool
    whole: int


@dataclass(frozen=True)
class InductorGraph:
    """The kernels of one pass.

    Attributes
    ----------
    direction : str
        "forward" or "backward".
    saved : int
        Bytes that a forward pass keeps for the backward pass, beside what it takes and returns.
    kernels : list of InductorKernel
        In order.
    """

    direction: str
    saved: int
    kernels: list[InductorKernel] = field(default_factory=list)


@contextmanager
def as_gpu(properties=A100):
    """Have Inductor believe that there is a GPU."""
    with ExitStack() as stack:
        patches = (
            config.patch(force_disable_caches=True, compile_threads=1),
            mock.patch.object(decomposition, "is_gpu", return_value=True),
            mock.patch.object(post_grad, "is_gpu", return_value=True),
            mock.patch.object(DeviceProperties, "create", return_value=properties),
            mock.patch.object(scheduler.Scheduler, "create_backend", triton),
            mock.patch.object(torch._C, "_conv_determine_backend_memory_format", of_cudnn),
        )
        for patch in patches:
            stack.enter_context(patch)
        yield


def triton(schedule, device):
    """Return the rules of the Triton backend."""
    V.graph.add_device_info(device)
    return TritonScheduling(schedule)


def of_cudnn(images, weight, backend):
    """Return the layout that cuDNN gives to what a convolution makes."""
    formats = map(suggest_memory_format, (images, weight))
    is_last = torch.channels_last in formats
    return torch.channels_last if is_last else torch.contiguous_format


def kernels_of(program):
    """Return what Inductor makes of a program on the CPU.

    Parameters
    ----------
    program : support.inductor.programs.Program
        Its inputs are on the CPU.

    Returns
    -------
    list of InductorGraph
        In the order of compilation.
    """
    graphs = []

    def schedule(gm, inputs, is_backward=False, is_inference=False, **options):
        graphs.append(scheduled(gm, inputs, is_backward, is_inference))
        return stand_in(gm)

    def backend(gm, inputs):
        return compile_fx(gm, inputs, inner_compile=schedule)

    torch.compiler.reset()
    with as_gpu():
        program.run(torch.compile(program.function, backend=backend, dynamic=False))
    torch.compiler.reset()
    return graphs


def stand_in(gm):
    """Return a function that gives tensors like those that a graph gives."""
    values = [node.meta["val"] if hasattr(node, "meta") else node for node in results(gm)]

    def run(arguments):
        arguments.clear()
        return [empty_like(value) for value in values]

    run._boxed_call = True
    return run


def empty_like(value, device="cpu"):
    """Return a new tensor like another one; what is no tensor, as it is."""
    if not isinstance(value, torch.Tensor):
        return value
    return torch.empty_strided(value.size(), value.stride(), dtype=value.dtype, device=device)


def results(gm):
    """Return the nodes that a graph gives."""
    return next(iter(reversed(gm.graph.nodes))).args[0]


def scheduled(gm, inputs, is_backward, is_inference):
    """Return the `InductorGraph` of what AOTAutograd has made."""
    saved = 0 if is_backward or is_inference else saved_bytes(gm)
    view_to_reshape(gm)
    with torch.no_grad():
        mode = fake_tensor_prop(gm, inputs)
    _recursive_record_original_output_strides(gm)
    with V.set_fake_mode(mode):
        _recursive_post_grad_passes(gm, is_inference=is_inference)
        inputs = on_gpu(gm, inputs, mode)
        graph = GraphLowering(gm, inputs, is_backward=is_backward, is_inference=is_inference)
        with V.set_graph_handler(graph), V.set_debug_handler(DebugContext()):
            graph.run(*inputs)
            graph._update_scheduler()
            kernels = [kernel(node) for node in graph.scheduler.nodes if is_kernel(node)]
    return InductorGraph(BACKWARD if is_backward else FORWARD, saved, kernels)


def on_gpu(gm, inputs, mode):
    """Move a graph to a GPU; return its inputs there."""

    def moved(value):
        if isinstance(value, torch.device):
            return GPU
        return empty_like(value, GPU)

    with mode:
        for node in gm.graph.nodes:
            node.args, node.kwargs = map_aggregate((node.args, node.kwargs), moved)
            node.meta["val"] = tree_map(moved, node.meta.get("val"))
        return [moved(x) for x in inputs]


def saved_bytes(gm):
    """Return the bytes that a forward graph makes for the backward pass alone."""
    first = TracingContext.get().fw_metadata.num_forward
    taken = storages(node for node in gm.graph.nodes if node.op == "placeholder")
    kept = storages(results(gm)[first:]) - taken - storages(results(gm)[:first])
    return sum(size for _, size in kept)


def storages(nodes):
    """Return what the tensors of some nodes lie in, with its bytes."""
    values = [getattr(node, "meta", {}).get("val") for node in nodes]
    memory = [value.untyped_storage() for value in values if isinstance(value, torch.Tensor)]
    return {(StorageWeakRef(storage), storage.nbytes()) for storage in memory}


def is_kernel(node):
    """Return whether a node of the schedule is a kernel that a GPU would run, too."""
    is_part = isinstance(node.node, ir.MultiOutput)
    is_copy = not node.is_extern() and OF_THE_CPU in operations(node)
    return not (isinstance(node, scheduler.NopKernelSchedulerNode) or is_part or is_copy)


def kernel(node):
    """Return the `InductorKernel` of a node of the schedule."""
    whole = node.get_read_write_buffers_sizes()
    return InductorKernel(kind(node), operations(node), *traffic(node), is_second(node), whole)


def kind(node):
    """Return the kind of a kernel."""
    if node.is_extern():
        return "extern"
    if node.is_template():
        return "template"
    if node.is_foreach():
        return "foreach"
    reductions = {axis(part) for part in node.get_nodes() if part.is_reduction()}
    if len(reductions) == 2:
        return "both"
    return reductions.pop() if reductions else "pointwise"


def axis(part):
    """Return "row" if the elements that a reduction sums lie beside each other, else "column"."""
    inner = max(reads(part), key=lambda dep: number(dep.get_numel()) * (not dep.is_indirect()))
    strides = V.graph.sizevars.stride_hints(inner.index, inner.var_names)
    return "row" if strides and strides[-1] == 1 else "column"


def reads(part):
    """Return what a part of a kernel reads through indices."""
    return [dep for dep in part.read_writes.reads if isinstance(dep, MemoryDep)]


def is_second(node):
    """Return whether the sums of a kernel are of other sums alone."""
    names = {dep.name for part in node.get_nodes() if part.is_reduction() for dep in reads(part)}
    return bool(names) and all(map(is_sum, names))


def is_sum(name):
    """Return whether a buffer is the result of a sum."""
    buffer = V.graph.name_to_buffer.get(name)
    return isinstance(getattr(buffer, "data", None), ir.Reduction)


def operations(node):
    """Return the ATen operations that are in a kernel, by name."""
    origins = {o for part in node.get_nodes() if part.node for o in part.node.get_origins()}
    targets = {origin.target for origin in origins if isinstance(origin.target, OpOverload)}
    return sorted({target.overloadpacket.__name__ for target in targets})
