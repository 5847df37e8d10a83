"""Scripts that say ``cuda`` and ``nccl`` run unmodified, with the values of gloo on the CPU."""

import os
import re
import subprocess
import sys

import pytest
from support import cuda_scripts

ENV = os.environ | {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
ENV.pop("PYTHONUNBUFFERED", None)  # with it ranks mix their lines
ENV["GLOO_SOCKET_IFNAME"] = "lo0" if sys.platform == "darwin" else "lo"
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
TORCHRUN += ["--local-addr", "127.0.0.1", "--nproc-per-node", "2"]
NUMBER = re.compile(r"(?<=[ \[])-?\d+\.?\d*(?:e-?\d+)?")


def lines_of(output):
    """Return the lines that ranks print, without their numbers, and the numbers."""
    lines = sorted(line for line in output.splitlines() if " loss " in line)
    numbers = [float(number) for line in lines for number in NUMBER.findall(line)]
    return [NUMBER.sub("", line) for line in lines], numbers


@pytest.mark.long
@pytest.mark.process
@pytest.mark.parametrize(
    ("name", "has_snapshot"),
    [
        ("torchrun_trainer", True),
        pytest.param("language_model", False, marks=pytest.mark.exhaustive),
        pytest.param("sharded", False, marks=pytest.mark.exhaustive),
    ],
)
def test_the_values_are_those_of_gloo_on_the_cpu(name, has_snapshot, tmp_path, simgpu_run):
    def args(who):
        return [str(tmp_path / f"{who}.pt")] if has_snapshot else []

    script = tmp_path / "on_cpu.py"
    script.write_text(cuda_scripts.on_cpu(name))
    python = ["--no-python", sys.executable]  # torchrun's is `python -u`, which does the same
    command = [*TORCHRUN, *python, str(script), *args("real")]
    real = subprocess.run(command, env=ENV, capture_output=True, text=True, timeout=240)
    assert real.returncode == 0, real.stderr
    source = cuda_scripts.path(name).read_text()
    code, out, err = simgpu_run(source, "--nproc-per-node", "2", args=args("simulated"))
    assert code == 0, err
    (texts, numbers), (own_texts, own_numbers) = lines_of(real.stdout), lines_of(out)
    assert len(texts) >= 3
    assert own_texts == texts
    assert own_numbers == pytest.approx(numbers, rel=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_mixed_precision_trains_alike(dtype, simgpu_run, monkeypatch):
    source = cuda_scripts.path("language_model").read_text()

    def losses(dtype):
        monkeypatch.setenv("DTYPE", dtype)
        code, out, err = simgpu_run(source, "--nproc-per-node", "2")
        assert code == 0, err
        assert f"the peak for {'tf32' if dtype == 'float32' else dtype}" in out
        return [float(loss) for loss in re.findall(r"loss (\S+)", out)]

    full, mixed = losses("float32"), losses(dtype)
    assert len(full) == 4
    assert mixed == pytest.approx(full, rel=1e-2)
    assert mixed != full


def test_a_snapshot_is_resumed(simgpu_run, tmp_path):
    source, snapshot = cuda_scripts.path("torchrun_trainer").read_text(), str(tmp_path / "s.pt")
    options = ["--nproc-per-node", "2"]
    _, first, _ = simgpu_run(source, *options, args=[snapshot, "--epochs", "1"])
    code, second, err = simgpu_run(source, *options, args=[snapshot, "--epochs", "2"])
    assert code == 0, err
    assert (first.splitlines()[0][:7], second.splitlines()[0][:7]) == ("epoch 0", "epoch 1")


@pytest.mark.slow
def test_what_compiling_takes_and_gains_is_said_once(simgpu_run):
    source = cuda_scripts.path("language_model").read_text()
    _, out, err = simgpu_run(source, "--nproc-per-node", "2")
    assert err.count("torch.compile takes no time here") == 1
    assert out.count("\nnote: torch.compile takes no time here") == 1
    assert out.count("\nnote: compiled: ") == 1
    _, out, err = simgpu_run(source.replace("compile = True", "compile = False"))
    assert "compile" not in out + err


def test_the_names_are_those_of_the_script(simgpu_run, tmp_path):
    work = (
        "import os, torch\n"
        "local = int(os.environ['LOCAL_RANK'])\n"
        "{}\n"
        "x = torch.ones(8, device=device)\n"
        "print(repr(x), x.type())\n"
        "try:\n"
        "    x + torch.ones(2, 3)\n"
        "except RuntimeError as error:\n"
        "    print(error)\n"
    )
    on_cuda = "torch.cuda.set_device(local); device = torch.device('cuda')"
    on_accelerator = "device = torch.accelerator.current_accelerator()"
    for name, lines in (("cuda", on_cuda), ("sim", on_accelerator)):
        trace = tmp_path / "trace.json"
        options = ["--nproc-per-node", "2", "--timeline", str(trace)]
        code, out, err = simgpu_run(work.format(lines), *options)
        assert code == 0, err
        assert f"device='{name}:1') torch.{name}.FloatTensor" in out
        assert f"at least two devices, {name}:1 and cpu!" in out
        assert f"rank 1 {name}:1" in trace.read_text()
        assert ("sim:" if name == "cuda" else "cuda") not in out + trace.read_text()


def test_an_imported_module_may_be_the_first_to_say_cuda(simgpu_run, tmp_path):
    (tmp_path / "helper.py").write_text(
        "import torch\ndef move(x):\n    return x.to('cuda'), torch.ones(1, device='cuda')\n"
    )
    source = (
        "import torch, helper\n"
        "before = torch.ones(1, device=torch.accelerator.current_accelerator())\n"
        "print(before.device)\n"
        "after, other = helper.move(before)\n"
        "assert after is before and other.device == before.device\n"
        "print(before.device, torch.accelerator.current_accelerator())\n"
    )
    code, out, err = simgpu_run(source)
    assert (code, out.splitlines()[:2]) == (0, ["sim:0", "cuda:0 cuda"]), err
