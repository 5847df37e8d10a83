"""The flags of other programs for a plan, and what has no counterpart in them.

Names are those of torchtitan 0.3 (``torchtitan/config/configs.py``), whose parser tests give them
to, and of Megatron (``megatron/training/arguments.py``, beside Megatron Core 0.20).
"""

PROGRAMS = ("torchtitan", "megatron")
HALF = {"float16": "fp16", "bfloat16": "bf16"}  # Megatron's flags; without one, float32


def flags(program, plan, job) -> str:
    """Return the flags of a plan for a program of `PROGRAMS`, one a line; remarks follow ``#``."""
    lines, remarks = (_torchtitan if program == "torchtitan" else _megatron)(plan, job)
    remarks += _recipe(job.program)
    return "\n".join([*lines, *(f"# {remark}" for remark in remarks)])


def _recipe(program):
    """Yield what these flags do not say of a `Program` that is not the usual one."""
    for name in ("optimizer", "weights", "loss"):
        value = getattr(program, name)
        if value != getattr(type(program), name):
            yield f"--{name} {value} is not in these flags: choose it in the program's own way"


def _flag(pair):
    name, value = pair
    return f"--{name}" if value is None else f"--{name} {value}"


def _torchtitan(plan, job):
    p, sharded = "parallelism.", plan.shard in (2, 3)
    replicas, core = job.replicas, plan.recompute == "core_attn"
    schedule = {"1f1b": "1F1B", "gpipe": "GPipe", "interleaved": "Interleaved1F1B"}[plan.schedule]
    pairs = [
        (p + "tensor_parallel_degree", plan.tp), (p + "context_parallel_degree", plan.cp),
        (p + "expert_parallel_degree", plan.ep), (p + "pipeline_parallel_degree", plan.pp),
        (p + "data_parallel_replicate_degree", 1 if plan.shard else replicas),
        (p + "data_parallel_shard_degree", replicas if plan.shard else 1),
        ("training.seq_len", job.model.seq), ("training.global_batch_size", job.sequences),
        ("training.local_batch_size", plan.micro_batch * (job.micro_batches if plan.pp > 1 else 1)),
    ]  # fmt: skip
    mode = "none" if core or job.program.recomputes_some else plan.recompute
    remarks = [f"activation-checkpoint:{mode} ends the flags: write others before it"]
    if plan.pp > 1:
        pairs += [(p + "pipeline_parallel_schedule", schedule),
                  (p + "pipeline_parallel_microbatch_size", plan.micro_batch),
                  (p + "pipeline_parallel_layers_per_stage", job.model.layers // job.stages),
                  (p + "pipeline_parallel_first_stage_less_layers", 0),
                  (p + "pipeline_parallel_last_stage_less_layers", 0)]  # fmt: skip
    if plan.pp > 1 or plan.ep > 1:
        pairs.append(("training.disable_cuda_graphs", None))
    if sharded:
        always = "always" if plan.shard == 3 else "never"
        pairs.append((p + "fsdp_reshard_after_forward", always))
    if plan.ep > 1 and (plan.etp or plan.tp) > 1:
        remarks.append("torchtitan keeps each expert whole (etp1)")
    if core:
        remarks.append("torchtitan cannot recompute attention alone; it recomputes nothing here")
    elif job.program.recomputes_some:
        remarks.append(f"recompute={plan.recompute} has no flag here, and nothing is recomputed")
    if plan.shard == 1:
        remarks.append("torchtitan has no ZeRO-1; it shards gradients and parameters, too, and may")
        remarks.append("take longer: `simgpu plan` with --shard 3 simulates that")
    return [*map(_flag, pairs), f"activation-checkpoint:{mode}"], remarks


def _megatron(plan, job):
    pairs = [
        ("tensor-model-parallel-size", plan.tp), ("pipeline-model-parallel-size", plan.pp),
        ("context-parallel-size", plan.cp), ("micro-batch-size", plan.micro_batch),
        ("global-batch-size", job.sequences), ("seq-length", job.model.seq),
        *((name, None) for name in [HALF.get(job.program.dtype)] if name),
    ]  # fmt: skip
    remarks = []
    if plan.tp > 1:
        pairs.append(("sequence-parallel", None))
    if job.model.experts:
        pairs += [
            ("expert-model-parallel-size", plan.ep),
            ("expert-tensor-parallel-size", plan.etp or plan.tp),
        ]
    if job.program.chunks > 1:
        each = job.model.layers // job.stages
        pairs.append(("num-layers-per-virtual-pipeline-stage", each))
    if plan.shard:
        pairs += [("use-distributed-optimizer", None), ("overlap-grad-reduce", None),
                  ("overlap-param-gather", None)]  # fmt: skip
    if plan.shard in (2, 3):
        kind = "optim_grads" if plan.shard == 2 else "optim_grads_params"
        pairs += [("use-megatron-fsdp", None), ("data-parallel-sharding-strategy", kind),
                  ("ckpt-format", "fsdp_dtensor")]  # fmt: skip
        remarks.append("Megatron's FSDP refuses CUDA_DEVICE_MAX_CONNECTIONS=1: unset it")
    elif plan.tp > 1 or plan.cp > 1:
        remarks.append("GPUs before Blackwell need CUDA_DEVICE_MAX_CONNECTIONS=1")
    if plan.recompute == "full":
        pairs += [("recompute-granularity", "full"), ("recompute-method", "uniform"),
                  ("recompute-num-layers", 1)]  # fmt: skip
    elif job.program.recompute_first:
        pairs += [("recompute-granularity", "full"), ("recompute-method", "block"),
                  ("recompute-num-layers", job.program.recompute_first)]  # fmt: skip
    elif job.program.recomputes_some:
        remarks.append(
            f"Megatron cannot recompute every {job.program.recompute_every}th layer; without a "
            "flag it recomputes nothing"
        )
    elif plan.recompute == "core_attn":
        pairs += [("recompute-granularity", "selective"), ("recompute-modules", "core_attn")]
    elif plan.recompute == "selective":
        remarks.append(
            "Megatron cannot recompute all but attention and every second product (torchtitan's "
            "selective); its own selective is core_attn here; without a flag it recomputes nothing"
        )
    if plan.schedule == "gpipe":
        remarks.append("Megatron has no GPipe; its 1F1B with few micro-batches takes its place")
    return [*map(_flag, pairs)], remarks
