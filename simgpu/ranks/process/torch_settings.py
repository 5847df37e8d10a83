"""Switches of PyTorch that a process has one of, kept in C++: each rank has its own setting.

Those that PyTorch keeps in Python are among `torch_internals.GLOBALS`.
"""

import torch

# Settings whose order matters: what comes later is set by what comes before as well.
_PRECISIONS = [
    (backend, what)
    for backend in ("generic", "cuda", "mkldnn")
    for what in ("all", "matmul", "conv", "rnn")
    if backend != "generic" or what == "all"
]


def _c(name):
    return getattr(torch._C, name)


def _precision(backend, what):
    return (
        lambda: _c("_get_fp32_precision_getter")(backend, what),
        lambda value: _c("_set_fp32_precision_setter")(backend, what, value),
    )


def _pair(name):
    return lambda: _c(f"_get_{name}")(), lambda value: _c(f"_set_{name}")(value)


def _get_deterministic():
    return (
        _c("_get_deterministic_algorithms")(),
        _c("_get_deterministic_algorithms_warn_only")(),
    )


def _set_deterministic(values):
    mode, warn_only = values
    _c("_set_deterministic_algorithms")(mode, warn_only=warn_only)


def _get_anomaly():
    return torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()


_SWITCHES = (
    (torch.get_default_dtype, torch.set_default_dtype),
    (_get_anomaly, lambda values: torch._C.set_anomaly_enabled(*values)),
    (_get_deterministic, _set_deterministic),
    _pair("deterministic_fill_uninitialized_memory"),
    _pair("cudnn_enabled"),
    _pair("cudnn_benchmark"),
    _pair("cudnn_deterministic"),
    _pair("float32_matmul_precision"),
    _pair("cudnn_allow_tf32"),
    *(_precision(*names) for names in _PRECISIONS),
)


def _read(get):
    """Return a setting, or None: this PyTorch has none, or was told so by names old and new."""
    try:
        return get()
    except (AttributeError, RuntimeError):
        return None


class Switches:
    """The settings of one rank."""

    def __init__(self):
        self.keep()

    def keep(self):
        """Note the settings."""
        self.values = [_read(get) for get, _ in _SWITCHES]

    def restore(self):
        """Set those that are others now."""
        for (get, set_), value in zip(_SWITCHES, self.values, strict=True):
            if value is not None and _read(get) != value:
                set_(value)
