"""What ranks on simulated GPUs cannot do: refused by name, at the call."""

from simgpu.ranks.process.torch_internals import ATTENTION

_REFUSED = {
    "torch:compile": ("torch.compile", "run the module as it is"),
    "torch.nn:Module.compile": ("Module.compile", "run the module as it is"),
    "torch.distributed.fsdp:FullyShardedDataParallel.__init__": (
        "FullyShardedDataParallel (FSDP1)",
        "use torch.distributed.fsdp.fully_shard (FSDP2)",
    ),
    f"{ATTENTION}:_create_default_load_balancer": (
        "context_parallel",
        "it works on fused attention alone, which here runs as products and a softmax; use "
        "SequenceParallel",
    ),
    f"{ATTENTION}:_enable_context_parallel_dispatcher": (
        "context parallelism",
        "it works on fused attention alone, which here runs as products and a softmax",
    ),
}


def replacements() -> dict:
    """Return what shall stand for PyTorch's names while ranks run."""
    refused = {name: _refuse(*reason) for name, reason in _REFUSED.items()}
    return {**refused, "signal:signal": _refuse_signal}


def _refuse(what, instead):
    def refuse(*args, **kwargs):
        raise NotImplementedError(f"{what} does not work on simulated GPUs; {instead}")

    return refuse


def _refuse_signal(signalnum, handler):
    """As Python's own, for threads that are not the main one, in words that say why."""
    raise ValueError(
        f"signal.signal({signalnum!r}) in a rank on simulated GPUs: ranks are threads of one "
        "process, whose main thread alone can handle signals; call it before sim.spawn(), or "
        "catch this error"
    )
