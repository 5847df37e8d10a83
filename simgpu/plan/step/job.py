"""What a job is: a model, a program that trains it, how it is split, on which GPUs."""

from dataclasses import dataclass, replace

import torch

from simgpu.network.cluster import Cluster
from simgpu.plan.step.model import Model
from simgpu.plan.step.recipe.names import CHUNKS
from simgpu.plan.step.rules import PlanError

HYBRID = 8  # ranks of a group that shards parameters (HSDP); the groups hold replicas
NUMBERS = (
    "tensor", "data", "pipeline", "micro_batch", "micro_batches", "context", "expert",
    "expert_tensor",
)  # fmt: skip


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
        layer to its end, as Megatron does), ``"attention"`` (attention alone, fused or not:
        Megatron's selective), or ``"products"`` (all but attention and every second product:
        torchtitan's selective).
    recompute_every, recompute_first : int
        Of so many layers of a stage only the last is recomputed; of a stage only so many first
        ones, 0: all.
    sequence_parallel : bool
        Norms and what is added are split over the tensor parallel ranks.
    overlap : bool
        Communication of tensor parallelism and of gradients runs behind the backward pass.
    compiled : bool
        Each layer is compiled, as by `torch.compile`.
    fused : bool
        The chains of pointwise operations between products are compiled, each by itself, or have
        kernels of their own, as in Megatron.
    float8 : bool
        The layers' products are of 8-bit numbers, which kernels cast from 16 bits.
    tf32 : bool
        Tensor cores may round the numbers of float32 products.
    reduce_bytes : int
        Of a gradient's number that is summed over ranks.
    attention : str
        ``"chosen"`` (what PyTorch chooses on that GPU), ``"flash"`` (FlashAttention-2),
        ``"efficient"`` (PyTorch's memory-efficient kernel, half as fast), ``"unfused"`` (products,
        softmax, dropout).
    loss : str
        ``"eager"``, ``"compiled"``, ``"in place"`` (the probabilities take the place of the
        logits, as in Megatron), ``"chunked"`` (in chunks of tokens, as in torchtune) or ``"fused"``
        (with the output layer, as in Liger: logits are never kept).
    loss_chunks : int
        Chunks of a chunked loss.
    chunks : int
        Stages that each rank of a pipeline has (interleaved).
    schedule : str
        ``"1f1b"``, or ``"gpipe"``: all forward passes before the first backward pass.
    adds : bool
        A kernel adds each parameter's gradient to its bucket, as in Megatron until 2022; without,
        the product's own kernel does.
    host_waits : bool
        The host waits for each message of the pipeline before it launches what needs it, as in
        Megatron, whose ``p2p_communication.py`` calls `torch.cuda.synchronize` behind each;
        not if stages are interleaved.
    dtype : str
        Of parameters and activations: ``"bfloat16"``, ``"float16"`` or ``"float32"``.
    zero_group : int, optional
        Among how many data parallel ranks ZeRO-1 splits the optimiser's states. Each group of that
        many ranks has all of them, and gradients are summed by all-reduces over all ranks, as in
        InternEvo. None: among all ranks, each of which gets only the sum of its own part.
    imbalance : float
        Tokens of the busiest of the ranks among which experts are split, over their mean.
    optimizer : str
        ``"adamw"``, ``"adam"``, ``"sgd"``, ``"sgd-momentum"``, ``"adamw-8bit"``, ``"adafactor"`` or
        ``"muon"``
        (`simgpu.plan.step.recipe.optimizers`).
    weights : str
        The type of what the optimizer changes: ``"float32"``, of which parameters are copies, or
        ``"bfloat16"``, the parameters themselves.
    """

    shard: str = "full"
    recompute: str = "none"
    sequence_parallel: bool = False
    overlap: bool = True
    compiled: bool = False
    fused: bool = False
    float8: bool = False
    reduce_bytes: int = 4
    attention: str = "chosen"
    loss: str = "eager"
    chunks: int = 1
    schedule: str = "1f1b"
    adds: bool = False
    host_waits: bool = False
    dtype: str = "bfloat16"
    zero_group: int | None = None
    imbalance: float = 1.0
    tf32: bool = False
    optimizer: str = "adamw"
    weights: str = "float32"
    loss_chunks: int = CHUNKS
    recompute_every: int = 1
    recompute_first: int = 0

    @property
    def recomputes_some(self):
        """Whether some layers are recomputed, and others not."""
        return self.recompute_every > 1 or self.recompute_first > 0

    def of_layer(self, number):
        """Return the program of a stage's layer: one that is recomputed, or not."""
        first, every = self.recompute_first, self.recompute_every
        again = number < first if first else (number + 1) % every == 0
        return self if again else replace(self, recompute="none")

    @property
    def master(self):
        """The torch type of what the optimizer changes."""
        return getattr(torch, self.weights)

    @property
    def has_copies(self):
        """Whether the optimizer changes copies of the parameters, in another type."""
        return self.master is not self.half

    @property
    def half(self):
        """The torch type of parameters and activations."""
        return getattr(torch, self.dtype)

    def set_precision(self):
        """Let this rank's products of float32 numbers be rounded or not."""
        torch.set_float32_matmul_precision("high" if self.tf32 else "highest")

    @property
    def sharded(self):
        """Whether FSDP2 runs it."""
        return self.shard in ("full", "grad_op", "hybrid")

    @property
    def reduced(self):
        """The torch type of a gradient that is summed over ranks."""
        return torch.float32 if self.reduce_bytes == 4 else self.half


@dataclass(frozen=True)
class Job:
    """One step: what, how, split over which GPUs.

    Attributes
    ----------
    model : Model
        Or one that a Python file makes (`simgpu.plan.user_model.UserModel`).
    program : Program
    cluster : Cluster
    tensor, data, pipeline : int
        Degrees; tensor parallel ranks are neighbours, then data parallel ones.
    context : int
        Among how many of the `data` ranks a sequence's positions are split.
    expert, expert_tensor : int
        Among how many ranks a layer's experts are split, and each of the experts: a mesh of its own
        over the ranks of `data` and `tensor`. None: each expert among `tensor` ranks.
    micro_batch : int
        Sequences that go through at once.
    micro_batches : int
        How many of these each pipeline has in a step.

    Raises
    ------
    PlanError
        If the job cannot be split or computed like this.
    """

    model: Model
    program: Program
    cluster: Cluster
    tensor: int = 1
    data: int = 1
    pipeline: int = 1
    micro_batch: int = 1
    micro_batches: int = 1
    context: int = 1
    expert: int = 1
    expert_tensor: int | None = None

    def __post_init__(self):
        for name in NUMBERS:
            value = getattr(self, name)
            if value is None and name == "expert_tensor":
                continue
            if not isinstance(value, int) or value < 1:
                raise PlanError(f"{name} is {value!r}; give a positive integer")
        if self.tensor * self.data * self.pipeline != self.cluster.world_size:
            raise PlanError(
                f"{self.tensor} x {self.data} x {self.pipeline} is not "
                f"{self.cluster.world_size} GPUs; change the split or the cluster"
            )
        if self.program.shard == "hybrid" and self.data % HYBRID:
            raise PlanError(
                f"{self.data} data parallel ranks are no multiple of the {HYBRID} that share shards"
            )
        for error in self.model.broken_rules(self):
            raise error

    @property
    def expert_split(self):
        """Among how many ranks each expert is split."""
        return self.expert_tensor or self.tensor

    @property
    def has_buckets(self):
        """Whether gradients have memory of their own all the time: without FSDP, to be summed."""
        return not self.program.sharded and (self.data > 1 or self.program.has_copies)

    @property
    def replicas(self):
        """How many sequences are processed at the same time."""
        return self.data // self.context

    @property
    def sequences(self):
        """Sequences of a step."""
        return self.replicas * self.micro_batch * self.micro_batches

    @property
    def dtype(self):
        """Name of the type of products."""
        program = self.program
        return "float8" if program.float8 else "tf32" if program.tf32 else program.dtype

    @property
    def peak(self):
        """FLOP/s of one GPU, by its data sheet, in that type."""
        return self.cluster.gpu.flops[self.dtype]

    @property
    def stages(self):
        """Stages of the whole model."""
        return self.pipeline * self.program.chunks
