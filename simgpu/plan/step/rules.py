"""What a transformer can be split into, and what cannot be computed: each rule once."""

from simgpu.plan.step.recipe.names import OF_MATRICES, PARTIAL_LOSSES


class PlanError(ValueError):
    """A plan that cannot be simulated; the message says why, and what to give instead.

    Attributes
    ----------
    reason : str
        The same in a few words, for tables.
    """

    def __init__(self, message, reason=None):
        super().__init__(message)
        self.reason = reason or message


def broken_rules(job):
    """Yield an error for each rule that a job breaks.

    Messages name the options of ``simgpu plan``; reasons name the parts of a plan.
    """
    yield from _indivisible(job)
    yield from split_matrices(job)
    yield from _impossible(job)


def _indivisible(job):
    model, split = job.model, job.expert_split
    for option, ways in (("ep", job.expert), ("etp", job.expert_tensor or 1)):
        if ways > 1 and not model.experts:
            yield PlanError(
                f"--{option} {ways}: {model.name} has no experts; leave it out",
                f"{option} without experts",
            )
    stages = "--pp" if job.program.chunks == 1 else "--pp times --chunks"
    for count, what, parts, by, option in (
        (model.heads, "heads", job.tensor, "tp", "--tp"),
        (model.keys, "heads of keys and values", job.tensor, "tp", "--tp"),
        (model.width, "columns of a feed-forward part", job.tensor, "tp", "--tp"),
        (model.layers, "layers", job.stages, "pp x chunks", stages),
        (model.seq, "positions", job.tensor * job.context, "tp x cp", "--tp times --cp"),
        (model.experts, "experts", job.expert, "ep", "--ep"),
        (model.width, "columns of an expert", split, "etp", "--etp"),
        (job.data, "data parallel ranks", job.context, "cp", "--cp"),
        (job.data, "data parallel ranks", job.program.zero_group or 1, "zero_group", "zero_group"),
    ):
        if count % parts:
            few = f"fewer {what} than {by}"
            fits = ", ".join(str(n) for n in range(1, min(count, 128) + 1) if count % n == 0)
            yield PlanError(
                f"{count} {what} cannot be split in {parts} ({option}); give one of {fits}",
                few if count < parts else f"{by} does not divide the {what}",
            )
    if job.data * job.tensor % (job.expert * split):
        yield PlanError(
            f"--ep {job.expert}: {job.expert} groups of {split} ranks, which split an expert "
            f"(--etp), do not divide the {job.data * job.tensor} ranks of a pipeline stage (--gpus "
            "/ --pp); give another --ep or --etp",
            "ep x etp does not divide the ranks of a stage",
        )


def split_matrices(job):
    """Yield an error for each split of the matrices that an optimizer needs as a whole."""
    name = job.program.optimizer
    if name not in OF_MATRICES:
        return
    for option, given, splits in (
        ("shard", "0", job.data > 1 and job.program.shard != "none"),
        ("tp", "1", job.tensor > 1),
        ("etp", "1", job.expert_split > 1),
    ):
        if splits:
            yield PlanError(
                f"--optimizer {name} needs whole matrices on each rank, and --{option} splits "
                f"them; give --{option} {given}, or another optimizer",
                f"{name} with matrices that {option} splits",
            )
    if name == "muon" and job.model.experts:
        yield PlanError(
            f"--optimizer muon: {job.model.name} has experts, whose weights of three dimensions "
            "torch.optim.Muon refuses; give another optimizer",
            "muon with experts",
        )


def _impossible(job):
    program, split = job.program, job.expert_split
    option, count = "every", program.recompute_every
    if program.recompute_first:
        option, count = "first", program.recompute_first
    layers = job.model.layers // job.stages
    if count > layers:
        yield PlanError(
            f"--recompute {option}:{count}: a stage has {layers} layers; give at most {layers}",
            f"recompute={option} has more layers than a stage",
        )
    if program.loss in PARTIAL_LOSSES and job.tensor > 1:
        yield PlanError(
            f"--loss {program.loss} computes logits of the whole vocabulary, which --tp "
            f"{job.tensor} splits; give --tp 1, or --loss eager",
            f"a {program.loss} loss with tp",
        )
    if program.loss == "chunked" and program.loss_chunks > job.micro_batch * job.model.seq:
        yield PlanError(
            f"--loss chunked:{program.loss_chunks}: a micro-batch has fewer tokens; give at most "
            f"{job.micro_batch * job.model.seq}"
        )
    if job.model.experts and job.tensor > 1 and not program.sequence_parallel:
        yield PlanError(
            "experts with tensor parallelism need sequence parallelism: each rank sends tokens of "
            "its own; turn it on"
        )
    separate = job.expert > 1 or split != job.tensor
    if separate and program.sharded and program.recompute == "products":
        yield PlanError(
            "experts that are gathered inside a layer cannot be recomputed selectively, since "
            "PyTorch wants the same operations again; recompute nothing or all, or use ZeRO-1",
            "PyTorch cannot recompute sharded experts selectively",
        )
