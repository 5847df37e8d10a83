"""What is found in one script with a fault at a time, and in scripts without."""

import pytest

pytestmark = pytest.mark.slow

HEAD = """
import os, sys, torch, torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, IterableDataset, TensorDataset
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
rank, size = dist.get_rank(), dist.get_world_size()
"""
TRAIN = f"""{HEAD}
batch = int(sys.argv[1]) if sys.argv[1:] else 16 // size
torch.manual_seed(0)
data = TensorDataset(torch.randn(62, 8), torch.randn(62, 1))
sampler = DistributedSampler(data)
loader = DataLoader(data, batch, sampler=sampler)
net = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Dropout(0.0), nn.Linear(16, 1)).cuda()
model = DistributedDataParallel(net)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
for epoch in range(2):
    sampler.set_epoch(epoch)
    for x, y in loader:
        loss = nn.functional.mse_loss(model(x.cuda()), y.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print("loss", loss.item())
"""


WHOLE = """        loss = nn.functional.mse_loss(model(x.cuda()), y.cuda())
        optimizer.zero_grad()
        loss.backward()
"""
IN_PARTS = """        optimizer.zero_grad()
        for a, b in zip(x.cuda().split(4), y.cuda().split(4)):
            loss = nn.functional.mse_loss(model(a), b)
            loss.backward()
"""
OF_SOME = "loss = (model(a) - b)[b > 0].square().mean() / len(x.split(4))"


def changed(*pairs):
    """Return the script with other lines."""
    text = TRAIN
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    return text


def test_a_script_without_a_fault_is_equal(simgpu_check):
    code, printed, found = simgpu_check(TRAIN, "--steps", "3")
    assert (code, found["exit_code"], found["notes"]) == (0, 0, [])
    assert printed.out.startswith("equal: train.py on one GPU and on 2, in 3 steps\n")
    assert "loss" not in printed.out


def test_data_in_order_may_come_in_the_same_order_again(simgpu_check):
    source = changed(("DistributedSampler(data)", "DistributedSampler(data, shuffle=False)"))
    assert simgpu_check(source, "--steps", "0")[0] == 0


@pytest.mark.process
def test_batches_that_workers_have_fetched_ahead_count_when_they_are_taken(simgpu_check):
    source = changed(("sampler=sampler", "sampler=sampler, num_workers=2"))
    code, printed, _ = simgpu_check(source, "--steps", "3")
    assert code == 0, printed.out
    source = source.replace("data = T", "torch.manual_seed(0); data = T").replace(
        "16 // size", "16"
    )
    text = " ".join(simgpu_check(source, "--steps", "1")[1].out.split())
    assert "step 1 has 16 examples on one GPU and 32 on 2 GPUs" in text


def test_memory_that_nothing_has_written_is_noted(simgpu_check):
    """Its values differ between runs on GPUs, whatever their number."""
    made = "torch.empty(1, device='cuda')"
    source = changed(("optimizer = ", f"{made}.exp()\noptimizer = "))
    with pytest.warns(RuntimeWarning, match="nothing has written"):
        code, _, found = simgpu_check(source, "--steps", "2")
    assert code == 0
    (note,) = found["notes"]
    assert note.startswith("'exp' (train.py:17) reads memory that nothing has written: a float32")


def test_what_the_script_prints_can_be_shown(simgpu_check):
    _, printed, _ = simgpu_check(TRAIN, "--steps", "2", "--show")
    assert printed.out.count("loss") == 4  # one GPU twice, then two


FAULTS = {
    "no sampler": (
        (("sampler=sampler", "shuffle=False"),), "examples", 1, "all 2 GPUs see the same 8",
        "no sampler divides them",
    ),
    "shuffles of their own": (
        (("torch.manual_seed(0)", "torch.manual_seed(rank)"), ("sampler=sampler", "shuffle=True")),
        "examples", 1, "are seen twice in pass 1", "ranks draw their own shuffles",
    ),
    "left out": (
        (("loader = DataLoader(data, batch, sampler=sampler)",
          "some = range(rank, 62 - 8 * (size > 1), size)\n"
          "loader = DataLoader(data, batch, sampler=some)"),),
        "examples", 4, "8 examples are never seen in pass 1", "parts of the data are left out",
    ),
    "no set_epoch": (
        (("    sampler.set_epoch(epoch)\n", ""),), "examples", 5, "repeats the order of pass 1",
        "call sampler.set_epoch(epoch)",
    ),
    "a rate that is scaled": (
        (("lr=0.1", "lr=0.1 * size"),), "learning rate", 1, "one GPU 0.1, 2 GPUs 0.2",
        "depends on the number of GPUs",
    ),
    "gradients that are not reduced": (
        (("DistributedDataParallel(net)", "net"),), "parameters", 1, "4 drift apart",
        "no collective is called in this step",
    ),
    "the module under the wrapper": (
        (("mse_loss(model(", "mse_loss(net("),), "parameters", 1, "4 drift apart",
        "not its .module",
    ),
    "a norm over replicas, too": (
        (("    optimizer.step()", "    [p.grad.div_(size ** 0.5) for p in net.parameters()]\n"
          "        optimizer.step()"),),
        "gradients", 1, "", "√2 times too small: the norm that they are clipped by",
    ),
    "other weights": (
        (("DistributedDataParallel(net)", "net"), ("net = ", "torch.manual_seed(rank); net = ")),
        "parameters", 1, "4 drift apart", "not equal before the first step",
    ),
    "a sum for a mean": (
        (("loss.backward()", "(loss * size).backward()"),), "loss", 1, "", "2 times too large",
    ),
    "a sum over micro-batches": (
        ((WHOLE, IN_PARTS),), "loss", 1, "",
        "of 4 micro-batches are added up on one GPU, of 2 on each of 2: divide each by",
    ),
    "a mean of unequal micro-batches": (
        ((WHOLE, IN_PARTS.replace("loss = nn.functional.mse_loss(model(a), b)", OF_SOME)),),
        "loss", 1, "", "and their micro-batches count equally, not tokens or examples: divide",
    ),
    "a type": (
        (("model = D", "net.to(torch.float64 if size > 1 else torch.float32); model = D"),
         ("x.cuda()", "x.cuda().to(net[0].weight.dtype)"),
         ("y.cuda()", "y.cuda().to(net[0].weight.dtype)")),
        "types", 1, "one GPU float32, 2 GPUs float64", "converted on one way only",
    ),
    "a call that one rank leaves out": (
        (("    optimizer.step()", "    optimizer.step()\n        if loss.item() > 1 and rank == 0: "
          "dist.all_reduce(loss.detach())"),),
        "collectives", 3, "rank 0 has made the call at train.py:23 2 times", "a rank's own data",
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found(simgpu_check, fault):
    changes, quantity, step, text, cause = FAULTS[fault]
    code, printed, found = simgpu_check(changed(*changes), "--steps", "0")
    first = found["findings"][0]
    assert (code, first["quantity"], first["step"]) == (1, quantity, step), printed.out
    assert text in first["text"]
    assert cause in first["cause"]


def test_what_follows_from_a_cause_says_so(simgpu_check):
    _, _, found = simgpu_check(changed(("lr=0.1", "lr=0.1 * size")))
    causes = {finding["quantity"]: finding["cause"] for finding in found["findings"][1:]}
    assert causes == dict.fromkeys(
        ["loss", "gradients"], "may follow from the learning rate (step 1)"
    )


def test_a_batch_of_each_gpu_is_named_with_a_remedy(simgpu_check):
    code, printed, found = simgpu_check(TRAIN, args=["8"])
    assert (code, found["findings"]) == (2, [])
    text = " ".join(printed.out.split())
    assert "step 1 has 8 examples on one GPU and 16 on 2 GPUs" in text
    assert "--one 'ARGUMENTS'" in text
    assert simgpu_check(TRAIN, "--steps", "3", "--one", "16", args=["8"])[0] == 0


def test_dropout_that_decides_is_named(simgpu_check):
    code, printed, _ = simgpu_check(changed(("Dropout(0.0)", "Dropout(0.4)")))
    assert code == 2
    assert "dropout of 0.4 (train.py:" in printed.out


def test_initial_weights_of_shards_must_be_equal(simgpu_check):
    source = changed(
        ("model = DistributedDataParallel(net)", "model = fully_shard(net)"),
        (
            "from torch import nn",
            "from torch import nn\nfrom torch.distributed.fsdp import *",
        ),
    )
    assert simgpu_check(source, "--steps", "3", gpus=4)[0] == 0
    code, _, found = simgpu_check(
        source.replace("net = ", "torch.manual_seed(rank); net = "), gpus=4
    )
    assert (code, found["findings"]) == (2, [])
    assert "the initial weights differ, such as" in found["not_compared"]


def test_a_padded_last_batch_is_a_note(simgpu_check):
    source = changed(("randn(62, 8), torch.randn(62, 1)", "randn(61, 8), torch.randn(61, 1)"))
    _, _, found = simgpu_check(source, "--steps", "0")
    assert any("a sampler pads the last batch" in note for note in found["notes"])
    assert all(finding["quantity"] != "examples" for finding in found["findings"])


def test_iterable_data_is_told_apart_by_its_content(simgpu_check):
    stream = """
class Stream(IterableDataset):
    def __iter__(self):
        return iter([(x, y) for x, y in zip(*data.tensors)][rank::size])
loader = DataLoader(Stream(), batch)
"""
    source = changed(("loader = DataLoader(data, batch, sampler=sampler)\n", stream))
    assert simgpu_check(source, "--steps", "3")[0] == 0
    source = source.replace("[rank::size]", "")
    assert simgpu_check(source)[2]["findings"][0]["quantity"] == "examples"


def test_inputs_of_the_model_stand_in_for_a_loader(simgpu_check):
    source = changed(("in loader:", "in zip(*(t.split(batch) for t in data.tensors)):"))
    code, _, found = simgpu_check(source)
    assert (code, found["findings"][0]["quantity"]) == (1, "examples")
    source = changed(("in loader:", "in zip(*(t[rank::size].split(batch) for t in data.tensors)):"))
    assert simgpu_check(source, "--steps", "3")[0] == 0


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("raise ValueError('no such file')", "the script failed on one GPU (exit code 1)"),
        (f"{HEAD}\nassert size == 1, 'one only'", "no optimizer.step() was called on one GPU"),
        (TRAIN.replace("batch =", "assert size == 1; batch ="), "failed on 2 GPUs"),
        (
            TRAIN.replace(
                "optimizer.step()", "[p.data.sub_(0.1 * p.grad) for p in net.parameters()]"
            ),
            "It has called backward() 8 times (train.py:23): let an optimizer of torch.optim",
        ),
    ],
)
def test_what_cannot_be_run_says_why(simgpu_check, source, text):
    code, printed, found = simgpu_check(source)
    assert (code, found) == (2, None)
    assert text in printed.err


def test_a_run_that_goes_on_from_the_files_of_another_is_named(simgpu_check, tmp_path):
    path, start = str(tmp_path / "last.pt"), "for epoch in range(2):"
    load = f"if os.path.exists({path!r}):\n    net.load_state_dict(torch.load({path!r}))\n"
    save = f"\n        if rank == 0: torch.save(net.state_dict(), {path!r})"
    source = changed((start, load + start), ("optimizer.step()", "optimizer.step()" + save))
    code, printed, found = simgpu_check(source, "--steps", "2", "--tolerance", "1e-3")
    assert (code, len(found["notes"])) == (2, 1)  # other initial weights
    assert "last.pt, which an earlier run of this check has written" in found["notes"][0]
    assert "is read again at train.py:19: a script" in found["notes"][0]
    ended = source.replace("net.load_state_dict(", "sys.exit(not ")
    code, printed, _ = simgpu_check(ended, "--steps", "2", "--tolerance", "1e-3")
    assert (code, printed.err.count("warning:")) == (2, 0)  # it was there before the first run
    (tmp_path / "last.pt").unlink()
    code, printed, _ = simgpu_check(ended, "--steps", "2", "--tolerance", "1e-3")
    assert code == 2
    assert "no optimizer.step() was called on 2 GPUs" in printed.err
    assert "warning: " in printed.err
    again = source.replace(load, "").replace(save, f"{save}; torch.load({path!r})")
    assert simgpu_check(again, "--steps", "2")[2]["notes"] == []  # what it has written itself


@pytest.mark.long
def test_two_optimizers_and_micro_batches_are_one_step(simgpu_check):
    source = changed(
        ("optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)",
         "first, second = (torch.optim.Adam(net[i].parameters(), lr=0.01) for i in (0, 3))"),
        ("        optimizer.zero_grad()\n        loss.backward()\n        optimizer.step()\n",
         "        (loss / 2).backward()\n        (loss.detach() * 0 + net[3].bias.sum() ** 2 / 2)"
         ".backward()\n        first.step()\n        second.step()\n        model.zero_grad()\n"),
    )  # fmt: skip
    code, printed, found = simgpu_check(source, "--steps", "3")
    assert (code, found["steps"]) == (0, 3), printed.out


def test_gradients_that_are_changed_after_they_were_reduced(simgpu_check):
    line = "        optimizer.step()\n"
    clip = "        net[0].weight.grad *= 1 + rank\n"
    code, _, found = simgpu_check(changed((line, clip + line)))
    first = found["findings"][0]
    assert (code, first["quantity"], first["step"]) == (1, "parameters", 1)
    assert first["cause"].startswith("their gradients differ between the ranks")


@pytest.mark.long
@pytest.mark.process
def test_a_script_that_resumes_needs_the_same_files_before_each_run(simgpu_check, tmp_path):
    saved = tmp_path / "saved.pt"
    source = changed(
        ("model = D", f"saved = {str(saved)!r}\n"
         "if os.path.exists(saved): net.load_state_dict(torch.load(saved, map_location='cuda'))\n"
         "model = D"),
        ("        print(", "        rank or torch.save(net.state_dict(), saved)\n        print("),
    )  # fmt: skip
    code, printed, _ = simgpu_check(source)
    assert code == 2
    assert "the script resumes from what it has written" in printed.err
    assert simgpu_check(source, "--before", f"mv {saved} {saved}.kept")[0] == 0
    code, _, found = simgpu_check(source, "--before", f"cp {saved}.kept {saved}")
    assert code == 0
    assert "earlier run" not in str(found["notes"])  # it is put there on purpose
    code, printed, _ = simgpu_check(source, "--before", "exit 3")
    assert code == 2
    assert "--before: exit 3 failed (exit code 3)" in printed.err
