"""Which GPUs can be used, on machines whose answers are made up."""

import warnings

import pytest
import torch

from d2lmini import devices

# What PyTorch 2.13 says; `torch.cuda.device_count()` is 2 all the same.
TOO_OLD = (
    "The NVIDIA driver on your system is too old (found version 11040). Please update your GPU "
    "driver by downloading and installing a new version from the URL: "
    "http://www.nvidia.com/Download/index.aspx."
)
WHEEL = ["sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120"]


class Driver:
    """Stands in for the CUDA driver's library."""

    def __init__(self, *capabilities):
        self.capabilities = capabilities

    def cuInit(self, flags):  # noqa: N802 - the driver's name
        return 0

    def cuDeviceGet(self, device, index):  # noqa: N802
        device._obj.value = 100 + index
        return 0

    def cuDeviceGetAttribute(self, value, attribute, device):  # noqa: N802
        value._obj.value = self.capabilities[device.value - 100][attribute - 75]
        return 0


@pytest.fixture
def machine(monkeypatch):
    """Return a function that puts GPUs into the machine."""

    def put(*capabilities, available=True, says=None, count=None):
        def init():
            if not available:
                raise says
            pytest.fail("initialised CUDA")

        count = len(capabilities) if count is None else count
        monkeypatch.setattr(torch.cuda, "is_available", lambda: available)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
        monkeypatch.setattr(torch.cuda, "init", init)
        monkeypatch.setattr(torch.cuda, "_lazy_init", init)
        monkeypatch.setattr(torch.cuda, "get_arch_list", lambda: WHEEL)
        monkeypatch.setattr(torch.version, "cuda", "13.0")
        monkeypatch.setattr(devices.ctypes, "CDLL", lambda name: Driver(*capabilities))

    return put


def test_gpus_that_can_be_used_are_counted_without_initialising_cuda(machine):
    machine((9, 0), (8, 9))
    assert devices.usable_gpus() == (2, None)


@pytest.mark.parametrize(
    "says",
    [
        RuntimeError("Found no NVIDIA driver on your system. Please check that you have one"),
        RuntimeError("No CUDA GPUs are available"),
        AssertionError("Torch not compiled with CUDA enabled"),
    ],
)
def test_no_gpu_is_no_problem(machine, says):
    machine(available=False, says=says)
    assert devices.usable_gpus() == (0, None)


def test_a_driver_too_old_is_named(machine):
    machine(available=False, says=RuntimeError(TOO_OLD), count=2)
    count, problem = devices.usable_gpus()
    assert count == 0
    assert "cannot use a GPU here: The NVIDIA driver on your system is too old" in problem
    assert problem.endswith("index.aspx")  # a part of a sentence


def test_a_gpu_that_pytorch_was_not_compiled_for_is_named(machine):
    machine((9, 0), (3, 7), (9, 0))
    count, problem = devices.usable_gpus()
    assert count == 1
    assert "cannot use cuda:1: that GPU has compute capability 3.7" in problem
    assert "compiled for sm_75, sm_80" in problem
    assert "CUDA_VISIBLE_DEVICES" in problem


@pytest.mark.parametrize(
    ("capability", "architectures", "runs"),
    [
        ((9, 0), WHEEL, True),
        ((8, 9), WHEEL, True),
        ((12, 1), WHEEL, True),
        ((7, 0), WHEEL, False),
        ((11, 0), WHEEL, False),
        ((3, 7), WHEEL, False),
        ((9, 0), ["sm_80"], False),
        ((9, 0), ["sm_80", "compute_80"], True),
        ((7, 0), ["compute_80"], False),
        ((9, 0), ["sm_90a"], True),
        ((9, 0), [], True),
    ],
)
def test_kernels_run_from_their_version_on(capability, architectures, runs):
    assert devices._has_kernels(capability, architectures) is runs


def test_a_driver_without_an_answer_does_not_hide_gpus(machine, monkeypatch):
    def no_library(name):
        raise OSError(name)

    machine((9, 0))
    monkeypatch.setattr(devices.ctypes, "CDLL", no_library)
    assert devices.usable_gpus() == (1, None)


def test_this_machine_agrees_with_pytorch():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        count, problem = devices.usable_gpus()
    assert count == (torch.cuda.device_count() if torch.cuda.is_available() else 0) or problem
