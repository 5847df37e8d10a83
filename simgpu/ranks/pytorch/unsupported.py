"""Raise an error for features of PyTorch that ranks do not support."""

_REFUSED = {
    "torch:compile": ("torch.compile", "run the module as it is"),
    "torch.nn:Module.compile": ("Module.compile", "run the module as it is"),
    "torch.distributed.fsdp:FullyShardedDataParallel.__init__": (
        "FullyShardedDataParallel (FSDP1)",
        "use torch.distributed.fsdp.fully_shard (FSDP2)",
    ),
}


accepted: set = set()  # names that ``simgpu run`` has replaced by something that works


def replacements() -> dict:
    """Return the replacements of PyTorch's names while ranks run."""
    refused = {n: _refuse(*reason) for n, reason in _REFUSED.items() if n not in accepted}
    return {**refused, "signal:signal": _refuse_signal}


def _refuse(what, instead):
    def refuse(*args, **kwargs):
        raise NotImplementedError(f"{what} does not work on simulated GPUs; {instead}")

    return refuse


def _refuse_signal(signalnum, handler):
    """Raise an error, as Python does outside the main thread, with the reason and a remedy."""
    raise ValueError(
        f"signal.signal({signalnum!r}) in a rank on simulated GPUs: ranks are threads of one "
        "process, and only its main thread can handle signals; call it before sim.spawn(), or "
        "catch this error"
    )
