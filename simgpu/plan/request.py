"""What the planner is asked: a model, on which GPUs, split how, with which batch.

`make_request` makes a `Request` from names and numbers, which are the options of ``simgpu plan``:
each is a field of `Hardware`, `Plan`, `Workload` or `Money`. A model and a cluster are looked up
once, here.
"""

import math
import os
from dataclasses import dataclass, field, fields
from difflib import get_close_matches

from simgpu.hardware.device_properties import properties_of
from simgpu.network.boards import board_of
from simgpu.network.cluster import Cluster, build_cluster, usual_network
from simgpu.network.options import find_parts
from simgpu.plan import user_model
from simgpu.plan.model_file import find_model
from simgpu.plan.plans import PER_STAGE, SHARDS, Plan, check_positive, recomputed
from simgpu.plan.prices import Money
from simgpu.plan.step.job import Job, Model, PlanError, Program
from simgpu.plan.step.recipe.names import DTYPES, OPTIMIZERS, WEIGHTS, parse_loss

TF32 = (8, 0)  # compute capability: older GPUs multiply such numbers as float32
STORED = {"float8": "bfloat16", "tf32": "float32"}  # types of numbers that products round
LOSSES = "eager, compiled, in-place, chunked[:N], fused"


@dataclass(frozen=True)
class Hardware:
    """The GPUs, by their names.

    Attributes
    ----------
    gpus : int
        In all.
    gpu, link, network : str, optional
        Presets, or a GPU's file; what joins nodes can be rates such as ``"25GB/s:8"``. None: an
        A100, and what usually goes with the GPU.
    memory : str, optional
        Of a GPU, such as ``"40GB"``.
    host : str, optional
        What the host takes for a kernel of eager code, such as ``"31us/24us"``.
    gpus_per_node : int, optional
        None: a full board, at most `gpus`.
    """

    gpus: int = 8
    gpu: str | None = None
    memory: str | None = None
    host: str | None = None
    link: str | None = None
    network: str | None = None
    gpus_per_node: int | None = None

    def find_cluster(self) -> Cluster:
        """Return the cluster; raise `ValueError` if there is none like this."""
        check_positive("gpus", self.gpus)
        check_positive("gpus_per_node", self.gpus_per_node)
        gpu, link = find_parts(self.gpu, self.link, self.memory, self.host)
        each = self.gpus_per_node or min(board_of(link).gpus, self.gpus)
        if self.gpus % each:
            raise PlanError(
                f"--gpus {self.gpus} does not fill nodes of {each}; give a multiple, or "
                "--gpus-per-node"
            )
        nodes = self.gpus // each
        network = self.network
        if network is None and nodes > 1:
            network = usual_network(link)
        return build_cluster(self.gpus, gpu, link, nodes, network)


@dataclass(frozen=True)
class Workload:
    """What a step computes, whatever the plan.

    Attributes
    ----------
    global_batch : int, optional
        Sequences a step. None: one micro-batch a replica, `PER_STAGE` for each stage of a pipeline.
    sequence : int, optional
        Tokens a sequence. None: the model's.
    dtype : str, optional
        One of `DTYPES`, of the products. None: bfloat16 if the GPU has it, else float16.
        ``"float32"`` and ``"tf32"``: all numbers have 32 bits, and for products tensor cores round
        them (TF32) or not.
    compiled : bool
        Chains of pointwise operations are one kernel.
    imbalance : float
        Tokens of the busiest of the expert parallel ranks over their mean.
    optimizer : str
        ``"adamw"``, ``"adam"``, ``"sgd"``, ``"sgd-momentum"``, ``"adamw-8bit"``, ``"adafactor"`` or
        ``"muon"``
        (`simgpu.plan.step.recipe.optimizers`).
    weights : str
        What the optimizer changes: ``"float32"``, copies of 32 bits if products have fewer, or
        ``"bfloat16"``, the parameters themselves; then gradients and the optimizer's states are in
        16 bits, too.
    loss : str
        ``"eager"``, ``"compiled"``, ``"in-place"``, ``"chunked"`` or ``"chunked:4"``, ``"fused"``
        (`simgpu.plan.step.recipe.losses`).
    """

    global_batch: int | None = None
    sequence: int | None = None
    dtype: str | None = None
    compiled: bool = False
    imbalance: float = 1.0
    optimizer: str = "adamw"
    weights: str = "float32"
    loss: str = "eager"

    def __post_init__(self):
        check_positive("global_batch", self.global_batch)
        check_positive("sequence", self.sequence)
        _check_choice("optimizer", self.optimizer, OPTIMIZERS)
        _check_choice("weights", self.weights, WEIGHTS)
        if parse_loss(self.loss) is None:
            raise PlanError(f"--loss {self.loss}: give one of {LOSSES}")
        if not 1 <= self.imbalance < math.inf:
            raise PlanError(
                f"--imbalance {self.imbalance:g}: give a number of at least 1 (balanced)"
            )

    @property
    def recipe(self):
        """What is not as usual of the optimizer and so on, in words: a list."""
        words = {"optimizer": "optimizer {}", "weights": "{} weights", "loss": "loss {}"}
        given = {name: getattr(self, name) for name in words}
        return [words[n].format(v) for n, v in given.items() if v != getattr(Workload, n)]


@dataclass(frozen=True)
class Request:
    """What the planner is asked.

    Attributes
    ----------
    model : Model or UserModel
    cluster : Cluster
    plan : Plan
    workload : Workload
    money : Money

    Raises
    ------
    PlanError
        If they do not fit each other; the message names the option and the remedy.
    """

    model: Model | user_model.UserModel
    cluster: Cluster
    plan: Plan = field(default_factory=Plan)
    workload: Workload = field(default_factory=Workload)
    money: Money = field(default_factory=Money)

    def __post_init__(self):
        dtype, imbalance, gpu = self.workload.dtype, self.workload.imbalance, self.cluster.gpu
        known = [name for name in DTYPES if _has_units(gpu, name)]
        if dtype is not None and dtype not in known:
            raise PlanError(
                f"--dtype {dtype}: {gpu.name} has no such units; give {', '.join(known)}"
            )
        if self.workload.weights == "bfloat16" and self.dtype not in ("bfloat16", "float8"):
            raise PlanError(
                f"--weights bfloat16 needs products of bfloat16, not of {self.dtype}; give "
                "--weights float32, or --dtype bfloat16"
            )
        if imbalance != 1 and not self.model.experts:
            raise PlanError(f"--imbalance {imbalance:g}: {self.model.no_experts}; leave it out")

    @property
    def gpus(self):
        """How many GPUs there are."""
        return self.cluster.world_size

    @property
    def price(self):
        """Dollars for a GPU and an hour; None without a file of prices."""
        prices = self.money.prices
        return None if prices is None else prices.find(self.cluster.gpu.name)

    def check_price(self):
        """Raise `PlanError` if the file of prices lacks the GPU: before steps are simulated."""
        if self.money.prices is not None:
            self.money.prices.find(self.cluster.gpu.name)

    def cost(self, step_seconds, step_tokens):
        """Return the `Cost` of steps that take so long; None if nothing was asked."""
        return self.money.cost_of(self.price, self.gpus, step_seconds, step_tokens)

    @property
    def dtype(self):
        """Name of the type of products."""
        flops = self.cluster.gpu.flops
        usual = "bfloat16" if flops["bfloat16"] > flops["float32"] else "float16"
        return self.workload.dtype or usual

    def job(self) -> Job:
        """Return the job that a step of the plan is.

        Raises
        ------
        PlanError
            If the plan is impossible; its `reason` says why in a few words.
        """
        plan, size = self.plan, self.plan.tp * self.plan.pp * self.plan.cp
        if self.gpus % size:
            raise PlanError(
                f"--tp {plan.tp} x --pp {plan.pp} x --cp {plan.cp} = {size} does not divide --gpus "
                f"{self.gpus}; give {size * -(-self.gpus // size)} GPUs, or other degrees",
                "tp x pp x cp does not divide the GPUs",
            )
        _check_schedule(plan)
        data = self.gpus // (plan.tp * plan.pp)
        count = self._micro_batches(data // plan.cp)
        job = Job(
            self.model, self._program(), self.cluster, plan.tp, data, plan.pp, plan.micro_batch,
            max(count, 1), plan.cp, plan.ep, plan.etp,
        )  # fmt: skip
        self._check_batch(job)
        return job

    def _program(self):
        plan, dtype = self.plan, self.dtype
        loss, chunks = parse_loss(self.workload.loss)
        return Program(
            SHARDS[plan.zero], sequence_parallel=plan.tp > 1, **recomputed(plan.recompute),
            compiled=self.workload.compiled, float8=dtype == "float8", chunks=plan.stages_per_rank,
            schedule="gpipe" if plan.schedule == "gpipe" else "1f1b",
            dtype=STORED.get(dtype, dtype), tf32=dtype == "tf32",
            imbalance=self.workload.imbalance, optimizer=self.workload.optimizer,
            weights=self.workload.weights, loss=loss, loss_chunks=chunks,
            reduce_bytes=4 if self.workload.weights == "float32" else 2,
        )  # fmt: skip

    def _micro_batches(self, replicas):
        """Return how many micro-batches each replica has in a step, rounded down."""
        if self.workload.global_batch is None:
            return PER_STAGE * self.plan.pp if self.plan.pp > 1 else 1
        return self.workload.global_batch // (replicas * self.plan.micro_batch)

    def _check_batch(self, job):
        """Refuse a batch that the replicas or the pipeline cannot share."""
        batch, plan = self.workload.global_batch, self.plan
        if batch is None:
            return
        unit, count, pp = job.replicas * job.micro_batch, job.micro_batches, plan.pp
        if batch != unit * count:
            small = "the batch is too small for one micro-batch a replica"
            raise PlanError(
                f"--global-batch {batch} is no multiple of {unit}: {job.replicas} replicas x "
                f"--micro-batch {plan.micro_batch}; give {unit * -(-batch // unit)}",
                small if batch < unit else "replicas x micro-batch does not divide the batch",
            )
        if plan.schedule != "gpipe" and count < pp:
            raise PlanError(
                f"--schedule {plan.schedule} needs {pp} micro-batches, one for each stage (--pp "
                f"{pp}), and --global-batch {batch} gives {count}; give --global-batch "
                f"{unit * pp}, or --schedule gpipe",
                "fewer micro-batches than stages",
            )
        if plan.schedule == "interleaved" and count % pp:
            raise PlanError(
                f"--schedule interleaved needs a multiple of {pp} micro-batches (--pp), and "
                f"--global-batch {batch} gives {count}; give --global-batch "
                f"{unit * pp * -(-count // pp)}",
                "micro-batches are no multiple of pp, interleaved",
            )


_PARTS = Hardware, Plan, Workload, Money
OPTIONS = {item.name: part for part in _PARTS for item in fields(part)}


def make_request(model, **options) -> Request:
    """Return the request that a model and options describe.

    Parameters
    ----------
    model : str, path-like, Model or UserModel
        A preset, or the path of a ``.json`` or ``.py`` file.
    **options
        Fields of `Hardware`, `Plan`, `Workload` and `Money`; None: the default.

    Raises
    ------
    PlanError
        If an option is unknown, or options do not fit each other.

    Examples
    --------
    >>> request = make_request("gpt2-124m", gpus=8, tp=2, global_batch=16)
    >>> request.job().micro_batches
    4
    """
    given = {part: {} for part in _PARTS}
    for name, value in options.items():
        if name not in OPTIONS:
            nearest = get_close_matches(name, OPTIONS, 1, cutoff=0)[0]
            raise PlanError(f"unknown option {name!r}; did you mean {nearest!r}?")
        if value is not None:
            given[OPTIONS[name]][name] = value
    hardware, plan, workload, money = (part(**values) for part, values in given.items())
    model = _find(model)
    if workload.sequence is not None:
        model = model.with_sequence(workload.sequence)
    try:
        cluster = hardware.find_cluster()
    except PlanError:
        raise
    except ValueError as error:
        raise PlanError(str(error)) from None
    return Request(model, cluster, plan, workload, money)


def request_of(args, model=None, **other):
    """Return the request that parsed options describe, or one with another model or options."""
    given = {name: value for name, value in vars(args).items() if name in OPTIONS} | other
    return make_request(args.model if model is None else model, **given)


def plan_options(args):
    """Return the fields of `Plan` that were given, which a search does not change."""
    return {field.name: getattr(args, field.name) for field in fields(Plan) if field.name in args}


def _find(model):
    if isinstance(model, (Model, user_model.UserModel)):
        return model
    name = os.fspath(model)
    return user_model.load(name) if name.endswith(".py") else find_model(name)


def _has_units(gpu, dtype):
    rounds = dtype != "tf32" or properties_of(gpu).capability >= TF32
    return rounds and dtype in gpu.flops


def _check_choice(name, value, choices):
    if value not in choices:
        raise PlanError(f"--{name} {value}: give one of {', '.join(choices)}")


def _check_schedule(plan):
    if plan.schedule != "interleaved":
        if plan.chunks is not None:
            raise PlanError(f"--chunks {plan.chunks} needs --schedule interleaved")
    elif plan.pp == 1:
        raise PlanError("--schedule interleaved needs --pp 2 or more")
    elif plan.stages_per_rank < 2:
        raise PlanError(f"--chunks {plan.chunks}: give 2 or more")
