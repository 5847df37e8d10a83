"""What a plan's step takes, in words and as numbers. All of it is simulated."""

from dataclasses import asdict, dataclass

from simgpu.bands.find import find_band, in_words
from simgpu.bands.kinds import Kind
from simgpu.network import nccl_memory
from simgpu.plan.errors import MEMORY_SPLIT, kind_of_job
from simgpu.plan.plans import SHARDS
from simgpu.plan.prices import Cost
from simgpu.plan.simulate import simulate
from simgpu.plan.step.experts import most_imbalance
from simgpu.plan.step.job import PlanError
from simgpu.run.causes.shares import CAUSES
from simgpu.units import number, percent, quantity, size

BALANCED = "every expert gets as many tokens as the others"


@dataclass(frozen=True)
class Report:
    """A step in a few numbers.

    Attributes
    ----------
    model, hardware, program : str
        In words.
    step_time_seconds : float
    tokens_per_step : int
        Of all GPUs; of a model that takes no tokens, its samples.
    unit : str
        What is counted: ``"tokens"`` or ``"samples"``.
    gpus : int
    mfu_share : float, optional
        FLOPs of the model, without recomputation, over what the peaks allow, 0 to 1.
    peak_flop_per_second : float
        Of one GPU, for `dtype`.
    dtype : str
    optimizer, weights, loss : str
        The optimizer, the type of what it changes, and how the loss is computed.
    parameters : int
    peak_memory_bytes : float
        Of what tensors take, on the GPU that needs most.
    peak_reserved_bytes : float
        Of the segments that PyTorch's caching allocator would hold for them on a large GPU.
    uncounted_memory_bytes : tuple
        The least and the most that CUDA's context and NCCL's buffers take besides.
    gpu_memory_bytes : int
    time_shares : dict
        Share of the step's time by cause, 0 to 1.
    kind : Kind
        Which published steps say how wrong `step_time_seconds` may be.
    notes : tuple of str
        What was assumed.
    imbalance : float, optional
        Assumed tokens of the busiest expert parallel rank over the mean; None without experts.
    cost : Cost, optional
        What the plan costs; None if neither prices nor the length of a run were given.
    """

    model: str
    hardware: str
    program: str
    step_time_seconds: float
    tokens_per_step: int
    unit: str
    gpus: int
    mfu_share: float
    peak_flop_per_second: float
    dtype: str
    optimizer: str
    weights: str
    loss: str
    parameters: int
    peak_memory_bytes: float
    peak_reserved_bytes: float
    uncounted_memory_bytes: tuple
    gpu_memory_bytes: int
    time_shares: dict
    kind: Kind
    notes: tuple = ()
    imbalance: float | None = None
    cost: Cost | None = None

    @property
    def rate(self):
        """Tokens a second, of all GPUs."""
        return self.tokens_per_step / self.step_time_seconds

    @property
    def limit(self):
        """The cause of the largest share of the time."""
        return max(self.time_shares, key=self.time_shares.get)

    @property
    def fits(self):
        """Whether the peak of what tensors take is below what a GPU has."""
        return self.peak_memory_bytes <= self.gpu_memory_bytes

    @property
    def band(self):
        """The `Band` of published steps of this kind, or None."""
        return find_band(self.kind)

    def to_dict(self) -> dict:
        """Return all numbers, for JSON; the end of a key is its unit."""
        return asdict(self) | {
            "error_of_time": self.band and self.band.to_dict(),
            f"{self.unit}_per_second": self.rate,
            f"{self.unit}_per_second_per_gpu": self.rate / self.gpus,
            "limited_by": self.limit,
            "fits": self.fits,
            "cost": self.cost and self.cost.to_dict(),
        }

    def __str__(self):
        share = self.peak_memory_bytes / self.gpu_memory_bytes
        memory = f"{100 * share:.0f} % of a GPU's {size(self.gpu_memory_bytes)}"
        memory += f"; {size(self.peak_reserved_bytes)} reserved"
        if not self.fits:
            memory += ": DOES NOT FIT"
        elif nccl_memory.may_be_too_much(
            self.peak_reserved_bytes, self.uncounted_memory_bytes, self.gpu_memory_bytes
        ):
            memory += ": fits barely, if the allocator finds room beside what is not counted"
        peak = f"of {quantity(self.peak_flop_per_second, 'FLOP/s')} a GPU, the peak for"
        rows = [
            ("step time", quantity(self.step_time_seconds, "s"),
             f"{self.tokens_per_step:,} {self.unit}"),
            (f"{self.unit}/s", number(self.rate), f"{number(self.rate / self.gpus)} a GPU"),
            ("MFU", percent(self.mfu_share), f"{peak} {self.dtype}"),
            ("peak memory", size(self.peak_memory_bytes), memory),
            *(self.cost.rows(self.unit) if self.cost else ()),
            ("limited by", self.limit, CAUSES[self.limit]),
        ]  # fmt: skip
        causes = sorted(self.time_shares, key=self.time_shares.get, reverse=True)
        rows += [(f"  {c}", percent(self.time_shares[c]), "") for c in causes]
        lines = [
            f"simulated, not measured: {self.model}",
            f"  on {self.hardware}",
            f"  {self.program}",
            *(f"{a:<22} {b:<18} {c}".rstrip() for a, b, c in rows),
            f"how sure: {in_words(self.step_time_seconds, self.kind)}",
            f"note: not counted are {nccl_memory.in_words(self.uncounted_memory_bytes)}",
            *(f"note: {note}" for note in self.notes),
        ]
        return "\n".join(lines)


def report_of(request) -> Report:
    """Simulate a step of a request's plan, and return what it takes.

    Raises
    ------
    PlanError
        If the plan is impossible, or the model does not run.
    """
    job = request.job()
    request.check_price()
    _check_imbalance(job)
    step, model, gpus = simulate(job), job.model, request.gpus
    tokens, unit = model.work
    of_step = job.sequences * tokens
    return Report(
        model=model_in_words(model) + _length_in_words(model),
        hardware=hardware_in_words(job.cluster), program=_program_in_words(request, job),
        step_time_seconds=step.seconds,
        tokens_per_step=of_step, unit=unit, gpus=gpus,
        mfu_share=step.flops / (gpus * job.peak * step.seconds), peak_flop_per_second=job.peak,
        dtype=job.dtype, optimizer=job.program.optimizer, weights=job.program.weights,
        loss=request.workload.loss, parameters=model.parameters, peak_memory_bytes=step.memory,
        peak_reserved_bytes=step.reserved, uncounted_memory_bytes=step.context_bytes,
        gpu_memory_bytes=job.cluster.gpu.memory,
        time_shares={cause: seconds / step.seconds for cause, seconds in step.causes.items()},
        kind=kind_of_job(job, step.causes), notes=(*_notes(request, job, step),),
        imbalance=job.program.imbalance if model.experts else None,
        cost=request.cost(step.seconds, of_step),
    )  # fmt: skip


def _check_imbalance(job):
    """Refuse an imbalance that no routing can have among the ranks of the plan."""
    given, model, ranks = job.program.imbalance, job.model, job.expert
    if given == 1:
        return
    if ranks == 1:
        raise PlanError(
            f"--imbalance {given:g} needs --ep 2 or more: every rank has all experts, so none gets "
            "more tokens than the others"
        )
    most = most_imbalance(model, ranks)
    if given > most:
        raise PlanError(
            f"--imbalance {given:g}: a token goes to {model.active} of {model.experts} experts, so "
            f"the busiest of {ranks} ranks has at most {most:g} times the mean; give 1 to {most:g}"
        )


def _notes(request, job, step):
    """Yield what was assumed, or is known to be predicted too low."""
    if recipe := request.workload.recipe:
        yield class_of_recipe(recipe)
    if max(job.tensor, job.pipeline) > 1:
        yield (
            "published peaks of jobs with tensor parallelism or pipelines were up to "
            f"{MEMORY_SPLIT:g} times the predicted ones: here up to "
            f"{size(MEMORY_SPLIT * step.memory)}"
        )
    if job.model.experts:
        yield routing_in_words(job.program.imbalance)


def class_of_recipe(recipe):
    """Return what published steps say of a recipe that is not the usual one, given in words."""
    return (
        "the class of published steps behind `how sure` has all recipes, and few steps or none "
        f"with {' and '.join(recipe)}"
    )


def routing_in_words(imbalance):
    """Return what is assumed of the tokens of experts."""
    if imbalance == 1:
        return BALANCED
    return (
        f"assumed: the busiest of the ranks among which experts are split gets {imbalance:g} times "
        "the mean's tokens, in every layer and micro-batch; time and memory are that rank's"
    )


def model_in_words(model):
    """Return the name of a model and the number of its parameters."""
    count, word = model.parameters, ""
    if count >= 1e9:
        count, word = count / 1e9, " billion"
    elif count >= 1e6:
        count, word = count / 1e6, " million"
    return f"{model.name}, {number(count)}{word} parameters"


def hardware_in_words(cluster):
    """Return a cluster in words."""
    text = f"{cluster.gpus_per_node} x {cluster.gpu.name} on {cluster.link.name}"
    if cluster.nodes > 1:
        text = f"{cluster.nodes} nodes of {text}, joined by {cluster.network.name}"
    return text


def _length_in_words(model):
    return f", sequences of {model.seq:,} tokens" if model.has_sizes else ""


def _program_in_words(request, job):
    plan, recipe = request.plan, request.workload.recipe
    program, batches = job.program, f"{job.micro_batches} x micro-batch {job.micro_batch} on"
    if not job.model.has_sizes:
        wrapper = "FSDP2" if program.sharded else "DDP"
        return (
            f"{', '.join([wrapper, job.dtype, *recipe])}, recompute {plan.recompute}, {batches} "
            f"each of {job.replicas} GPUs"
        )
    degrees = {
        "TP": job.tensor, "PP": job.pipeline, "CP": job.context, "EP": job.expert,
        "DP": job.replicas,
    }  # fmt: skip
    split = " ".join(f"{name} {count}" for name, count in degrees.items() if count > 1)
    split += f" ETP {job.expert_split}" if job.expert_split != job.tensor else ""
    stage = SHARDS.index(program.shard)
    words = [split or "one GPU", f"ZeRO stage {stage}" if job.data > 1 else ""]
    if job.pipeline > 1:
        chunks = f" with {program.chunks} stages a rank" if program.chunks > 1 else ""
        words.append(f"schedule {plan.schedule}{chunks}")
    words += [*recipe, f"recompute {plan.recompute}",
              f"batch {job.sequences}: {batches} {job.replicas} replicas"]  # fmt: skip
    return ", ".join(word for word in words if word)
