"""Per-process state of Python and PyTorch that every rank has its own copy of.

A real rank is a process. Here ranks are threads of one process, so its state is saved when a rank
stops running, and restored before the rank resumes. `_STATE` lists it; to make another global
rank-local, add a pair of functions there.
"""

import os
import random
import sys
from functools import partial

import torch

from simgpu.ranks.process import python_settings, torch_internals


class HostClock:
    """The host of one rank: its clock, copies to it in flight, and its default device.

    Parameters
    ----------
    machine : Machine
        The machine that the ranks share.
    row : int
        The row of this host in the trace.
    index : int
        The index of the rank's device.
    """

    def __init__(self, machine, row, index):
        self.machine, self.row, self.index = machine, row, index
        self.now, self.pending = machine.host, []

    def save(self):
        """Save the clock of the machine."""
        self.now, self.pending = self.machine.host, self.machine.pending

    def restore(self):
        """Restore the clock of the machine."""
        self.machine.host, self.machine.pending = self.now, self.pending
        self.machine.host_row, self.machine.default_index = self.row, self.index


class RankLocalState:
    """The process state of one rank, or of the caller.

    Parameters
    ----------
    variables : dict, optional
        Environment variables that differ from the caller's.
    modules : ModulesOfRank, optional
        The modules of a rank.
    """

    def __init__(self, variables=None, modules=None):
        self.modules = modules
        self._values = [get() for get, _ in _STATE]
        environment = self._values[_ENVIRONMENT][0]
        for name, value in (variables or {}).items():
            environment[os.environ.encodekey(name)] = os.environ.encodevalue(value)
        self._globals, self._settings = torch_internals.first_values(), _read_settings()

    def save(self):
        """Save the state, before another rank runs."""
        if self.modules is not None:
            self.modules.save()
        self._values = [get() for get, _ in _STATE]
        self._globals, self._settings = torch_internals.get_globals(), _read_settings()

    def restore(self):
        """Restore the state, before this rank resumes."""
        for (_, restore), value in zip(_STATE, self._values, strict=True):
            restore(value)
        torch_internals.set_globals(self._globals)
        _write_settings(self._settings)
        if self.modules is not None:
            self.modules.restore()


def _get_random_states():
    """Return the states of the generators of PyTorch (for the CPU), Python, and NumPy."""
    numpy = sys.modules["numpy"].random.get_state() if "numpy" in sys.modules else None
    return torch.get_rng_state(), random.getstate(), numpy


def _set_random_states(states):
    of_torch, of_python, of_numpy = states
    torch.set_rng_state(of_torch)
    random.setstate(of_python)
    if of_numpy is not None:
        sys.modules["numpy"].random.set_state(of_numpy)


def _get_environment():
    """Return the environment variables, encoded (decoding is slow), and the working directory."""
    try:
        return os.environ._data.copy(), os.getcwd()
    except OSError:  # the directory was deleted
        return os.environ._data.copy(), None


def _set_environment(environment):
    own, directory = environment
    now, here = _get_environment()
    if own != now:
        for name in now.keys() - own.keys():
            del os.environ[os.fsdecode(name)]
        for name in [name for name in own if own[name] != now.get(name)]:
            os.environ[os.fsdecode(name)] = os.fsdecode(own[name])
    if directory is not None and directory != here:
        os.chdir(directory)


_SPAWNED = "__mp_main__"  # what `multiprocessing` calls the script in a process that it spawns


def _get_main_program():
    """Return the module ``__main__``, its name in spawned processes, and the arguments."""
    return sys.modules["__main__"], sys.modules.get(_SPAWNED), sys.argv


def _set_main_program(program):
    sys.modules["__main__"], spawned, sys.argv = program
    if spawned is None:
        sys.modules.pop(_SPAWNED, None)
    else:
        sys.modules[_SPAWNED] = spawned


def _get_path():
    """Return the folders of modules: the list, and what it holds."""
    return sys.path, [*sys.path]


def _set_path(path):
    sys.path, folders = path
    if sys.path != folders:
        sys.path[:] = folders


_STATE = (
    (_get_environment, _set_environment),
    (_get_random_states, _set_random_states),
    (_get_main_program, _set_main_program),
    (_get_path, _set_path),
    (python_settings.get_output, python_settings.set_output),
    (python_settings.get_logging, python_settings.set_logging),
    (python_settings.get_settings, python_settings.set_settings),
)
_ENVIRONMENT = 0  # its index in _STATE


def _c(name):
    return getattr(torch._C, name, None)


def _pair(name):
    return _c(f"_get_{name}"), _c(f"_set_{name}")


def _precision(backend, what):
    return (
        partial(_c("_get_fp32_precision_getter"), backend, what),
        partial(_c("_set_fp32_precision_setter"), backend, what),
    )


def _get_deterministic():
    return _c("_get_deterministic_algorithms")(), _c("_get_deterministic_algorithms_warn_only")()


def _set_deterministic(values):
    mode, warn_only = values
    _c("_set_deterministic_algorithms")(mode, warn_only=warn_only)


def _get_anomaly():
    return torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()


_ATTENTION = (
    (_c("_get_flash_sdp_enabled"), _c("_set_sdp_use_flash")),
    (_c("_get_mem_efficient_sdp_enabled"), _c("_set_sdp_use_mem_efficient")),
    (_c("_get_cudnn_sdp_enabled"), _c("_set_sdp_use_cudnn")),
    (_c("_get_math_sdp_enabled"), _c("_set_sdp_use_math")),
    (_c("_get_sdp_priority_order"), _c("_set_sdp_priority_order")),
)


def _get_attention():
    """Return which kernels attention may use (`torch.nn.attention.sdpa_kernel`), in which order."""
    return [get() for get, _ in _ATTENTION]


def _set_attention(values):
    for (_, write), value in zip(_ATTENTION, values, strict=True):
        write(value)


# Settings of PyTorch in C++. The order matters: setting an earlier one also changes later ones.
# (Settings that PyTorch keeps in Python are among `torch_internals.GLOBALS`.)
_SETTINGS = [
    (torch.get_default_dtype, torch.set_default_dtype),
    (_get_anomaly, lambda values: torch._C.set_anomaly_enabled(*values)),
    (_get_deterministic, _set_deterministic),
    _pair("deterministic_fill_uninitialized_memory"),
    _pair("cudnn_enabled"),
    _pair("cudnn_benchmark"),
    _pair("cudnn_deterministic"),
    _pair("float32_matmul_precision"),
    _pair("cudnn_allow_tf32"),
    (_get_attention, _set_attention),
]
if _c("_get_fp32_precision_getter"):
    _SETTINGS += [
        _precision(backend, what)
        for backend in ("generic", "cuda", "mkldnn")
        for what in ("all", "matmul", "conv", "rnn")
        if backend != "generic" or what == "all"
    ]
_SETTINGS = [pair for pair in _SETTINGS if None not in pair]


def _read_settings():
    return [_read(get) for get, _ in _SETTINGS]


def _read(get):
    """Return a setting; None if PyTorch refuses because its old and new APIs were mixed."""
    try:
        return get()
    except RuntimeError:
        return None


def _write_settings(values):
    """Write the settings that differ from the current ones."""
    now = _read_settings()
    if now == values:
        return
    for (get, write), value in zip(_SETTINGS, values, strict=True):
        if value is not None and _read(get) != value:
            write(value)
