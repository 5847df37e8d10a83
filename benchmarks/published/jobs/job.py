"""What a job is: a model, a program that trains it, how it is split, on which GPUs."""

from dataclasses import dataclass

from simgpu.network.cluster import Cluster

HYBRID = 8  # ranks that share the shards, with replicas across


@dataclass(frozen=True)
class Model:
    """A transformer that predicts the next token.

    Attributes
    ----------
    hidden, heads, layers, seq, vocabulary : int
    kv_heads : int, optional
        Heads of keys and values, by default `heads`.
    inner : int, optional
        Width of the feed-forward part, by default four times `hidden`.
    gated : bool
        SwiGLU, RMS norm and rotary positions (Llama), not GELU, layer norm, learned positions.
    tied : bool
        The embedding is the output layer, too.
    dropout : bool
        After attention and feed-forward part, and of the scores.
    flash : bool
        Attention is one kernel that keeps no scores.
    """

    hidden: int
    heads: int
    layers: int
    seq: int
    vocabulary: int
    kv_heads: int | None = None
    inner: int | None = None
    gated: bool = False
    tied: bool = True
    dropout: bool = False
    flash: bool = True

    @property
    def width(self):
        """Width of the feed-forward part."""
        return self.inner or 4 * self.hidden

    @property
    def keys(self):
        """Heads of keys and values."""
        return self.kv_heads or self.heads

    @property
    def layer_parameters(self):
        """Weights of a layer, without biases."""
        head = self.hidden // self.heads
        attention = 2 * self.hidden**2 + 2 * self.hidden * head * self.keys
        return attention + (3 if self.gated else 2) * self.hidden * self.width

    @property
    def parameters(self):
        """All weights, without biases and norms."""
        rows = self.vocabulary * (1 if self.tied else 2) + (0 if self.gated else self.seq)
        return self.layers * self.layer_parameters + rows * self.hidden

    def flops(self, sequences, recompute=False):
        """FLOPs of a step, attention in full: ``6 N + 12 l h s`` a token (8 and 16 if twice)."""
        layers = self.layers * (self.layer_parameters * 6 + 12 * self.hidden * self.seq)
        head = 6 * self.vocabulary * self.hidden
        return sequences * self.seq * (layers * (4 if recompute else 3) / 3 + head)


@dataclass(frozen=True)
class Program:
    """How a step is computed.

    Attributes
    ----------
    shard : str
        ``"full"`` (FSDP2), ``"grad_op"`` (parameters stay whole until the backward pass),
        ``"hybrid"`` (full inside a node, replicas across), ``"optimizer"`` (ZeRO-1), ``"none"``
        (one all-reduce of all gradients).
    recompute : str
        ``"none"``, ``"full"`` (every layer, up to the last input that is needed), ``"all"`` (every
        layer to its end, as Megatron does), ``"attention"`` (scores and softmax), or
        ``"products"`` (all but every second product and attention).
    sequence_parallel : bool
        Norms and what is added are split over the tensor parallel ranks.
    overlap : bool
        Communication of tensor parallelism and of gradients runs behind the backward pass.
    compiled : bool
        Chains of pointwise operations are one kernel.
    float8 : bool
        The layers' products run at the peak of 8-bit numbers.
    reduce_bytes : int
        Of a gradient's number that is summed over ranks.
    attention : tuple of float
        Work of flash attention, forward and backward, as a share of all pairs.
    loss_in_place : bool
        The probabilities take the place of the logits, as in Megatron.
    chunks : int
        Stages that each rank of a pipeline has (interleaved).
    """

    shard: str = "full"
    recompute: str = "none"
    sequence_parallel: bool = False
    overlap: bool = True
    compiled: bool = False
    float8: bool = False
    reduce_bytes: int = 4
    attention: tuple = (0.5, 0.5)
    loss_in_place: bool = False
    chunks: int = 1


@dataclass(frozen=True)
class Job:
    """One step: what, how, split over which GPUs.

    Attributes
    ----------
    model : Model
    program : Program
    cluster : Cluster
    tensor, data, pipeline : int
        Degrees; tensor parallel ranks are neighbours, then data parallel ones.
    micro_batch : int
        Sequences that go through at once.
    micro_batches : int
        How many of these each pipeline has in a step.
    """

    model: Model
    program: Program
    cluster: Cluster
    tensor: int = 1
    data: int = 1
    pipeline: int = 1
    micro_batch: int = 1
    micro_batches: int = 1

    def __post_init__(self):
        world = self.tensor * self.data * self.pipeline
        if world != self.cluster.world_size:
            raise ValueError(
                f"{self.tensor} x {self.data} x {self.pipeline} is not "
                f"{self.cluster.world_size} GPUs; change the split or the cluster"
            )
        if self.program.shard == "hybrid" and self.data % HYBRID:
            raise ValueError(
                f"{self.data} data parallel ranks are no multiple of the {HYBRID} that share shards"
            )
        for what, size, parts in (
            ("layers", self.model.layers, self.pipeline * self.program.chunks),
            ("heads", self.model.heads, self.tensor),
            ("heads of keys", self.model.keys, self.tensor),
            ("positions", self.model.seq, self.tensor),
        ):
            if size % parts:
                raise ValueError(f"{size} {what} cannot be split in {parts}; give a multiple")

    @property
    def stages(self):
        """Stages of the whole model."""
        return self.pipeline * self.program.chunks
