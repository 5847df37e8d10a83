"""How long one training step of a GPT takes on a cluster, term by term.

An analytic model of Megatron's program: the products of the layers at the efficiency of their
shapes, operations bound by memory, launches by the host, all-reduces of tensor parallelism, a
pipeline with one forward, one backward (1F1B), the gradients' all-reduce, the optimiser. Nothing in
it is fitted to step times; what it assumes stands at the constants.
"""

from dataclasses import dataclass, fields

from simgpu.network.cluster import Cluster
from simgpu.network.collective_costs import cost

HALF = 2  # bytes of a 16-bit number
# Passes over a tensor of tokens x hidden / 2 bytes in one layer's forward (reads and writes): two
# layer norms 4, two additions of bias and residual with dropout 7, query, key and value put in
# order 6, the context likewise 2. Over tokens x 4 hidden: bias and GELU 2. Over heads x tokens x
# seq: scaled and masked softmax 2, dropout 2.5 (its mask has bytes).
HIDDEN_PASSES, SPLIT_PASSES, WIDE_PASSES, SCORE_PASSES = 11, 8, 2, 4.5
BACKWARD_PASSES = 1.5  # of the forward's: gradients in and out, and the inputs again
# Kernels that one layer launches (counted in Megatron's fused layers; assumed for others).
FORWARD_LAUNCHES, BACKWARD_LAUNCHES = 24, 44
# Bytes that Adam moves for each parameter in mixed precision: master copy and both moments, read
# and written (24), gradient to 32 bits, unscaled, normed, read again (18), parameter written (2).
ADAM_BYTES = 44
# Passes over tokens x vocabulary of 4 bytes: loss forward and backward.
LOSS_PASSES = 6


@dataclass(frozen=True)
class Transformer:
    """A GPT: sizes as Megatron names them."""

    hidden: int
    heads: int
    layers: int
    seq: int
    vocabulary: int = 51_200

    @property
    def layer_parameters(self):
        """Parameters of one layer."""
        return 12 * self.hidden**2 + 13 * self.hidden

    @property
    def parameters(self):
        """All parameters; the embedding is also the output layer."""
        embedding = (self.vocabulary + self.seq) * self.hidden
        return self.layers * self.layer_parameters + embedding


@dataclass(frozen=True)
class Split:
    """How a step is spread over GPUs: tensor, data, pipeline parallel degrees and batch sizes."""

    tensor: int
    data: int
    pipeline: int
    batch: int
    micro_batch: int

    def __post_init__(self):
        for item in fields(self):
            value = getattr(self, item.name)
            if not isinstance(value, int) or value < 1:
                raise ValueError(f"{item.name} is {value!r}; give a whole number from 1 on")
        if self.batch % (self.data * self.micro_batch):
            raise ValueError(
                f"a batch of {self.batch} is no multiple of {self.data} replicas x micro-batch "
                f"{self.micro_batch}; change one of them"
            )

    @property
    def world_size(self):
        """GPUs in all."""
        return self.tensor * self.data * self.pipeline

    @property
    def micro_batches(self):
        """How many go through each pipeline."""
        return self.batch // (self.data * self.micro_batch)

    def rank(self, tensor, data, pipeline):
        """Megatron's order: tensor parallel ranks are neighbours, then data, then pipeline."""
        return tensor + self.tensor * (data + self.data * pipeline)


@dataclass(frozen=True)
class Step:
    """Seconds of one step on the busiest stage, by cause; they add up to `seconds`.

    Attributes
    ----------
    forward, recompute, backward : float
        The layers and the output layer, of all micro-batches.
    tensor_parallel : float
        All-reduces of activations and their gradients.
    host : float
        Waiting for the host, which launches more slowly than the GPU computes.
    bubble : float
        Waiting for the pipeline to fill and to drain.
    sends : float
        Activations and their gradients between stages.
    data_parallel : float
        The part of the gradients' all-reduce that nothing hides.
    embedding : float
        Sum of the tied embedding's gradients between first and last stage.
    optimizer : float
    """

    forward: float
    recompute: float
    backward: float
    tensor_parallel: float
    host: float
    bubble: float
    sends: float
    data_parallel: float
    embedding: float
    optimizer: float

    @property
    def seconds(self):
        """The step's time."""
        return sum(getattr(self, item.name) for item in fields(self))


def predict_step(
    model, split, cluster: Cluster, recompute=True, overlap=False, dtype="float16", launch=None
) -> Step:
    """Predict one training step.

    Parameters
    ----------
    model : Transformer
    split : Split
    cluster : Cluster
        Of at least ``split.world_size`` GPUs.
    recompute : bool
        True: each layer's forward is computed again before its backward.
    overlap : bool
        True: the gradients' all-reduce runs behind the last micro-batch's backward.
    dtype : str
        Of the products.
    launch : float, optional
        Host seconds that the program spends for each kernel, by default the GPU's
        `launch_overhead`. A property of the program more than of the GPU.

    Returns
    -------
    Step

    Raises
    ------
    ValueError
        If the cluster is too small, or a size is no multiple of its split.
    """
    _check(model, split, cluster)
    gpu, again = cluster.gpu, 1 if recompute else 0
    layers, count = model.layers // split.pipeline, split.micro_batches
    forward, backward = _layer(model, split, gpu, dtype)
    head_forward, head_backward = _head(model, split, gpu, dtype)
    reduce = _tensor_reduce(model, split, cluster)
    launch = gpu.launch_overhead if launch is None else launch
    # The host may run ahead within a pass; where it is slower than the GPU, the GPU waits for it.
    wait = max(FORWARD_LAUNCHES * launch - forward - 2 * reduce, 0.0)
    launches = BACKWARD_LAUNCHES + again * FORWARD_LAUNCHES
    device = backward + again * forward + (2 + 2 * again) * reduce
    wait += max(launches * launch - device, 0.0)
    stage = layers * (forward + 2 * reduce + device + wait)
    return Step(
        forward=count * (layers * forward + head_forward),
        recompute=count * layers * forward * again,
        backward=count * (layers * backward + head_backward),
        tensor_parallel=count * layers * (4 + 2 * again) * reduce,
        host=count * layers * wait,
        bubble=(split.pipeline - 1) * stage,
        sends=_sends(model, split, cluster),
        data_parallel=_data_parallel(
            model, split, cluster, layers * backward + head_backward if overlap else 0.0
        ),
        embedding=_embedding(model, split, cluster),
        optimizer=_optimizer(model, split, cluster),
    )


def _check(model, split, cluster):
    if split.world_size > cluster.world_size:
        raise ValueError(
            f"{split.world_size} ranks do not fit on {cluster.name} ({cluster.world_size} GPUs); "
            "give more nodes or a smaller split"
        )
    for what, size, parts in (
        ("layers", model.layers, split.pipeline),
        ("heads", model.heads, split.tensor),
        ("hidden", model.hidden, split.tensor),
        ("vocabulary", model.vocabulary, split.tensor),
    ):
        if size % parts:
            raise ValueError(f"{size} {what} cannot be split in {parts}; give a multiple")


def _traffic(gpu, num_bytes, kernels):
    """Seconds of kernels bound by memory."""
    return kernels * gpu.kernel_overhead + num_bytes / (
        gpu.memory_bandwidth * gpu.memory_efficiency
    )


def _layer(model, split, gpu, dtype):
    """Seconds of one layer and micro-batch: forward, backward; no communication."""
    h, t, s = model.hidden, split.tensor, model.seq
    tokens, heads = split.micro_batch * s, split.micro_batch * model.heads // t
    width = h // model.heads
    weights = [(3 * h // t, h), (h, h // t), (4 * h // t, h), (h, 4 * h // t)]  # (out, in)
    products = [(tokens, out, into, 1) for out, into in weights]
    products += [(s, s, width, heads), (s, width, s, heads)]
    forward = sum(gpu.matmul_seconds(*shape, dtype) for shape in products)
    # The gradient of the input and the gradient of the other factor, each a product.
    backward = sum(
        gpu.matmul_seconds(m, k, n, count, dtype) + gpu.matmul_seconds(n, k, m, count, dtype)
        for m, n, k, count in products
    )
    moved = HALF * (
        tokens * h * (HIDDEN_PASSES + (SPLIT_PASSES + 4 * WIDE_PASSES) / t)
        + heads * s * s * SCORE_PASSES
    )
    forward += _traffic(gpu, moved, FORWARD_LAUNCHES - len(products))
    backward += _traffic(gpu, BACKWARD_PASSES * moved, BACKWARD_LAUNCHES - 2 * len(products))
    return forward, backward


def _head(model, split, gpu, dtype):
    """Seconds of output layer and loss, one micro-batch: forward, backward."""
    tokens, part = split.micro_batch * model.seq, model.vocabulary // split.tensor
    loss = _traffic(gpu, 4 * tokens * part * LOSS_PASSES, 10)
    h = model.hidden
    forward = gpu.matmul_seconds(tokens, part, h, 1, dtype)
    backward = gpu.matmul_seconds(tokens, h, part, 1, dtype)
    backward += gpu.matmul_seconds(part, h, tokens, 1, dtype)
    return forward + loss / 2, backward + loss / 2


def _tensor_reduce(model, split, cluster):
    """Seconds of one all-reduce of a micro-batch's activations."""
    members = [split.rank(i, 0, 0) for i in range(split.tensor)]
    num_bytes = HALF * split.micro_batch * model.seq * model.hidden
    return cost("all_reduce", num_bytes, members, cluster).seconds


def _sends(model, split, cluster):
    """Seconds of the messages between stages, each waited for, as blocking sends are."""
    if split.pipeline == 1:
        return 0.0
    num_bytes = HALF * split.micro_batch * model.seq * model.hidden
    pair = split.rank(0, 0, 0), split.rank(0, 0, 1)
    once = cost("send", num_bytes, pair, cluster).seconds
    return 2 * (split.pipeline - 1 + split.micro_batches) * once


def _stage_parameters(model, split):
    """Parameters of the largest stage: the one with the embedding."""
    layers = model.layers // split.pipeline * model.layer_parameters
    return (layers + (model.vocabulary + model.seq) * model.hidden) / split.tensor


def _data_parallel(model, split, cluster, hidden):
    """Seconds of the gradients' all-reduce that exceed `hidden`."""
    members, *others = (
        [split.rank(tensor, i, stage) for i in range(split.data)]
        for stage in range(split.pipeline)
        for tensor in range(split.tensor)
    )
    num_bytes = HALF * _stage_parameters(model, split)
    seconds = cost("all_reduce", num_bytes, members, cluster, alongside=others).seconds
    return max(seconds - hidden, 0.0)


def _embedding(model, split, cluster):
    if split.pipeline == 1:
        return 0.0
    pair = split.rank(0, 0, 0), split.rank(0, 0, split.pipeline - 1)
    num_bytes = HALF * model.vocabulary * model.hidden / split.tensor
    return cost("all_reduce", num_bytes, pair, cluster).seconds


def _optimizer(model, split, cluster):
    return _traffic(cluster.gpu, ADAM_BYTES * _stage_parameters(model, split), 10)
