"""``simgpu plan --search``: names, constraints, bounds, the search itself, its report."""

import json
import random
import re
import sys
from collections import Counter
from dataclasses import replace

import pytest
from support.programs.plan_command import plan as command

import simgpu as sim
from simgpu.bands.find import find_band
from simgpu.command_line import progress
from simgpu.network.cluster import build_cluster
from simgpu.plan import errors
from simgpu.plan.plans import Plan, parse
from simgpu.plan.request import make_request
from simgpu.plan.simulate import Simulated, simulate
from simgpu.plan.step.job import Job, Model, PlanError, Program
from simgpu.search import best_first, space
from simgpu.search.best_first import GAIN, ROOM, TOO_LARGE, Tried, search
from simgpu.search.bounds import Bounds, bounds_of, probe, probe_key
from simgpu.search.export import flags
from simgpu.search.report import SearchReport, explain

SMALL = Model(1024, 8, 4, 1024, 8192, kv_heads=4, inner=2816, gated=True, tied=False)
EXPERTS = Model(1024, 8, 4, 1024, 8192, inner=1024, gated=True, tied=False, experts=8, active=2)


REQUEST = make_request(SMALL, gpus=16, gpu="a100", memory="4GB", global_batch=16)


def jobs_of(model=SMALL, request=REQUEST, **fixed):
    return space.jobs_of(replace(request, model=model), fixed)


def job_of(plan, model=SMALL):
    return replace(REQUEST, model=model, plan=plan).job()


@pytest.mark.parametrize(
    "plan",
    [
        Plan(), Plan(tp=8, pp=4, micro_batch=2, recompute="full", shard=1),
        Plan(pp=2, shard=1, schedule="interleaved", chunks=2), Plan(pp=2, schedule="gpipe"),
        Plan(cp=4, ep=2, micro_batch=16, recompute="selective", shard=3),
    ],
)  # fmt: skip
def test_names_of_plans(plan):
    assert parse(str(plan)) == plan


@pytest.mark.parametrize("text", ["tp", "tp8;pp2", "mb=two", "recompute=some", "dp8", "schedule=x"])
def test_names_that_are_no_plans(text):
    with pytest.raises(PlanError, match=r"unknown plan option '.*'; give tp, pp"):
        parse(text)


IMPOSSIBLE = {
    "tp3": "tp x pp x cp does not divide the GPUs",
    "tp16": "fewer heads than tp",
    "tp8": "fewer heads of keys and values than tp",
    "pp8": "fewer layers than pp x chunks",
    "pp2,chunks4": "fewer layers than pp x chunks",
    "ep2": "ep without experts",
    "etp2": "etp without experts",
    "mb2": "the batch is too small for one micro-batch a replica",
    "tp4,mb3": "replicas x micro-batch does not divide the batch",
    "pp2,mb2": "fewer micro-batches than stages",
}
IMPOSSIBLE_EXPERTS = {
    "tp2,ep16": "fewer experts than ep",
    "tp2,ep3": "ep does not divide the experts",
    "tp4,pp4,ep8": "ep x etp does not divide the ranks of a stage",
    "ep2,zero3,recompute=selective": "PyTorch cannot recompute sharded experts selectively",
}


UNEVEN = replace(SMALL, heads=6, kv_heads=6, inner=2820, layers=6, seq=1020)
IMPOSSIBLE_UNEVEN = {
    "tp4": "tp does not divide the heads",
    "pp4": "pp x chunks does not divide the layers",
    "cp8": "tp x cp does not divide the positions",
}


@pytest.mark.parametrize(
    ("model", "name", "reason"),
    [(SMALL, *row) for row in IMPOSSIBLE.items()]
    + [(EXPERTS, *row) for row in IMPOSSIBLE_EXPERTS.items()]
    + [(UNEVEN, *row) for row in IMPOSSIBLE_UNEVEN.items()]
    + [
        (
            replace(SMALL, inner=2817),
            "tp2",
            "tp does not divide the columns of a feed-forward part",
        ),
        (
            replace(EXPERTS, inner=1026),
            "tp2,etp4",
            "etp does not divide the columns of an expert",
        ),
        (replace(SMALL, kv_heads=2), "tp4", "fewer heads of keys and values than tp"),
    ],
)
def test_an_impossible_plan_has_a_reason_and_a_remedy(model, name, reason):
    with pytest.raises(PlanError) as error:
        job_of(parse(name), model)
    assert error.value.reason == reason
    assert re.search("; (give|leave|recompute) ", str(error.value))


@pytest.mark.parametrize("model", [SMALL, EXPERTS])
def test_random_plans_are_possible_or_have_a_reason(model):
    """What divides what is said once more here, in the simplest way."""
    draw, possible = random.Random(0), Counter()
    for _ in range(600):
        tp, pp, cp, mb = (draw.choice((1, 1, 2, 3, 4, 8, 16)) for _ in range(4))
        ep, chunks = draw.choice((1, 1, 2, 3)), draw.choice((1, 1, 2)) if pp > 1 else 1
        schedule = "interleaved" if chunks > 1 else draw.choice(("1f1b", "gpipe"))
        plan = Plan(
            tp, pp, cp, ep, mb, shard=draw.choice((0, 1, 2, 3)), schedule=schedule,
            chunks=chunks if chunks > 1 else None,
        )  # fmt: skip
        data, replicas = 16 // (tp * pp), 16 // (tp * pp * cp)
        wanted = (
            tp * pp * cp in (1, 2, 4, 8, 16)
            and model.keys % tp == model.layers % (pp * chunks) == model.seq % (tp * cp) == 0
            and (ep == 1 or (model.experts > 0 and ep == 2 and data % ep == 0))
            and 16 % (replicas * mb) == 0
            and (schedule == "gpipe" or 16 // (replicas * mb) >= pp)
            and (chunks == 1 or 16 // (replicas * mb) % pp == 0)
        )
        try:
            found = job_of(plan, model).sequences == 16
        except PlanError as error:
            found, reason = False, error.reason
            assert len(reason) < 60
        assert found == wanted, plan
        possible[found] += 1
    assert min(possible.values()) > 20


def test_plans_train_the_same_batch_in_the_same_type():
    jobs, reasons = jobs_of()
    assert reasons["fewer layers than pp x chunks"]
    for job in jobs.values():
        assert job.sequences == REQUEST.workload.global_batch
        assert (job.model, job.program.dtype) == (SMALL, "bfloat16")
        assert job.cluster.world_size == 16
        assert job.tensor <= 8
    fixed, _ = jobs_of(tp=2, recompute="full")
    assert fixed.keys() == {p for p in jobs if p.tp == 2 and p.recompute == "full"}


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "hardware"),
    [
        (SMALL, {"gpu": "a100"}),
        (SMALL, {"gpu": "h100", "compiled": True}),
        (EXPERTS, {"gpu": "h100"}),
    ],
)
@pytest.mark.parametrize("most", [2, pytest.param(10, marks=pytest.mark.exhaustive)])
def test_bounds_are_below_what_is_simulated(model, hardware, most):
    jobs, _ = jobs_of(model, make_request(model, gpus=16, global_batch=32, **hardware))
    for plan in random.Random(1).sample(sorted(jobs, key=str), most):
        job = jobs[plan]
        found, key = simulate(job), probe_key(job)
        bounds = [bounds_of(job)] + ([bounds_of(job, probe(key))] if key else [])
        for one in bounds:
            assert one.seconds <= 1.001 * found.seconds, plan
            assert one.memory <= 1.01 * found.memory, plan
        assert bounds[-1].seconds > 0.4 * found.seconds, plan


def made_up(seconds, memory):
    """Return `simulate` for jobs whose time and memory are made up from the plan's bounds."""

    def call(job):
        least = bounds_of(job)
        return Simulated(seconds(job) * least.seconds, memory(job) * least.memory,
                         causes={"compute": least.seconds})  # fmt: skip

    return call


def test_the_search_finds_what_an_exhaustive_one_finds(monkeypatch):
    """Whatever the times are, as long as they are above their bounds."""
    for seed in range(5):
        draw = random.Random(seed)
        factors = {}

        def above(job, draw=draw, factors=factors):
            return factors.setdefault(job, 1 + draw.random())

        monkeypatch.setattr(best_first, "simulate", made_up(above, above))
        monkeypatch.setattr(best_first, "probe_key", lambda job: None)
        jobs, reasons = jobs_of()
        found, every = search(jobs, reasons), search(jobs, reasons, everything=True)
        best = every.tried[0].step.seconds
        assert found.tried[0].step.seconds <= best / (1 - GAIN)
        split = every.rejected[best_first.NOT_KNOWN]
        assert found.simulated < every.simulated == len(jobs) - split
        assert found.rejected.total() + len(found.tried) + found.skipped == (
            len(jobs) + reasons.total()
        )
        assert all(one.step.memory <= ROOM * 4 * 2**30 for one in found.tried)


@pytest.mark.long
@pytest.mark.slow
def test_a_tiny_search_finds_the_exhaustive_winner():
    """On four GPUs with so little memory that the plan that is fastest with more does not fit."""
    request = make_request(SMALL, gpus=4, gpu="a100", memory="0.85GB", global_batch=8)
    jobs, reasons = jobs_of(SMALL, request, recompute="none", cp=1, pp=1)
    found, every = search(jobs, reasons), search(jobs, reasons, everything=True)
    assert every.simulated == len(jobs) > 3 * found.simulated
    assert every.rejected[TOO_LARGE] > reasons[TOO_LARGE]
    best, second = (one.step.seconds for one in every.tried[:2])
    assert found.tried[0].step.seconds <= best / (1 - GAIN)
    assert found.tried[0].step == every.tried[0].step
    assert every.tried[0].plan == Plan(micro_batch=2, shard=3)
    assert best < 0.97 * second


@pytest.mark.exhaustive
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_small_search_finds_the_exhaustive_winner():
    jobs, reasons = jobs_of(recompute="none", cp=1, micro_batch=1, schedule="1f1b")
    found, every = search(jobs, reasons), search(jobs, reasons, everything=True)
    best = every.tried[0]
    assert found.tried[0].step.seconds <= best.step.seconds / (1 - GAIN)
    assert found.simulated < len(jobs)


@pytest.mark.exhaustive
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("model", [SMALL, EXPERTS])
def test_a_search_on_sixteen_gpus_finds_the_exhaustive_winner(model):
    jobs, reasons = jobs_of(model)
    found, every = search(jobs, reasons), search(jobs, reasons, everything=True)
    assert found.tried[0].step.seconds <= every.tried[0].step.seconds / (1 - GAIN)
    known = {one.plan: one.step for one in every.tried}
    for plan, taken in known.items():
        assert bounds_of(jobs[plan]).seconds <= 1.001 * taken.seconds, plan


@pytest.mark.exhaustive
@pytest.mark.process
@pytest.mark.timeout(600)
def test_processes_find_the_same():
    jobs, reasons = jobs_of(pp=1, recompute="none", cp=1)
    here, there = (search(jobs, reasons, workers) for workers in (1, 2))
    assert there.tried[0].step.seconds <= here.tried[0].step.seconds / (1 - GAIN)
    times = {one.plan: one.step for one in here.tried}
    assert all(times.get(one.plan, one.step) == one.step for one in there.tried)


def tried(plan, seconds, memory=2**30, **causes):
    job = job_of(plan)
    return Tried(plan, job, Simulated(seconds, memory, memory, causes or {"compute": seconds}))


def report(*found, baseline=None):
    result = best_first.Search(list(found), Counter({"fewer heads than tp": 3}), skipped=7)
    return SearchReport("m", "h", "t", result, 16, 16 * 1024, baseline or found[-1])


def test_plans_closer_than_the_error_are_said_to_be():
    near, far = (1 + errors.COMPARED * factor for factor in (0.9, 1.1))
    one = report(tried(Plan(shard=1), 1.0), tried(Plan(tp=2, shard=1), near),
                 tried(Plan(tp=4, shard=1), far))  # fmt: skip
    flags_ = [row["cannot_tell"] for row in one.to_dict()["plans"]]
    assert flags_ == [False, True, False]
    text = str(one)
    assert text.count("  cannot tell\n") == 1
    assert "the best plan is faster by 14%" in text
    assert "3  fewer heads than tp" in text
    low, high = one.to_dict()["plans"][0]["expected_seconds"]
    assert (low, high) == find_band(one.best.kind).span


def test_plans_that_fit_barely_are_marked():
    roomy, tight = tried(Plan(shard=1), 1.0), tried(Plan(tp=2, shard=1), 1.1)
    whole = tight.job.cluster.gpu.memory
    tight = replace(tight, step=replace(tight.step, memory=0.8 * whole, reserved=whole + 1))
    text = str(report(roomy, tight))
    assert [line for line in text.splitlines() if "(80%) barely" in line]
    assert text.count("barely") == 2  # the mark, and what it means
    assert "barely" not in str(report(roomy))


def test_a_baseline_that_is_close_is_a_tie():
    one = report(tried(Plan(shard=1), 1.0), baseline=tried(Plan(tp=4, shard=1), 1.05))
    assert "takes 5% less: cannot tell" in str(one)


def test_a_baseline_can_be_faster_than_what_the_given_options_allow():
    slower = "slower by 100%, as the baseline ignores"
    for took, words in ((0.95, "takes 5% more: cannot tell"), (0.5, slower)):
        one = report(tried(Plan(tp=1, shard=1), 1.0), baseline=tried(Plan(tp=4, shard=1), took))
        assert words in str(one)


def test_a_baseline_that_nothing_beats_is_the_best():
    one = str(report(tried(Plan(shard=1), 1.0)))
    assert "mb1,zero1, 1 s; it is the best plan\n" in one


def test_the_best_of_plans_that_all_split_contexts_has_no_band():
    split = tried(Plan(cp=2, shard=1), 1.0)
    one = report(split, baseline=tried(Plan(tp=4, shard=1), 3.0))
    assert one.best is split
    assert one.to_dict()["error_of_time"] is None
    assert one.to_dict()["plans"][0]["expected_seconds"] is None
    assert "how sure: not known: no step of this kind was published (A100" in str(one)
    assert "takes 67% less: cannot tell" in str(one)


@pytest.mark.parametrize("memory", [2**30, 2**33])
def test_plans_that_split_contexts_are_searched_where_no_other_fits(monkeypatch, memory):
    """However fast they are predicted to be: nobody knows how wrong that is."""
    seconds = {Plan(cp=2, shard=1): 1.0, Plan(shard=1): 3.0, Plan(cp=4, shard=1): 1.2,
               Plan(tp=2, shard=1): 2.5}  # fmt: skip
    jobs = {plan: job_of(plan) for plan in seconds}
    found = {
        id(jobs[plan]): Simulated(took, 2**30 if plan.cp > 1 else memory, 0, {"compute": took})
        for plan, took in seconds.items()
    }
    monkeypatch.setattr(best_first, "bounds_of", lambda job, *_: Bounds(found[id(job)].seconds, 0))
    monkeypatch.setattr(best_first, "probe_key", lambda job: None)
    monkeypatch.setattr(best_first, "simulate", lambda job: found[id(job)])
    result = search(jobs, {"ep without experts": 5})
    fits = memory == 2**30
    assert [one.plan for one in result.tried] == [Plan(tp=2 if fits else 1, cp=1 if fits else 2,
                                                       shard=1)]  # fmt: skip
    assert result.skipped == 1
    kind = best_first.NOT_KNOWN if fits else TOO_LARGE
    assert result.rejected == {"ep without experts": 5, kind: 2}


@pytest.mark.parametrize("terminal", [True, False])
def test_a_terminal_sees_how_far_the_search_is(monkeypatch, capsys, terminal):
    monkeypatch.setattr(best_first, "simulate", made_up(lambda job: 1.5, lambda job: 1.0))
    monkeypatch.setattr(best_first, "probe_key", lambda job: None)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    monkeypatch.setattr(progress, "EVERY", 1e-3)
    search(jobs_of()[0])
    said = capsys.readouterr().err
    assert bool(said) == terminal
    if terminal:
        *_, last, _, blanks, end = said.split("\r")
        assert re.fullmatch(r"plan \d+ of \d+, 0:00, at most 0:00 left", last.strip())
        assert (blanks, end) == (" " * len(last), ""), "nothing of it is left"


def test_a_plan_that_splits_contexts_is_never_said_to_be_slower():
    one = report(tried(Plan(shard=1), 1.0))
    text = explain(one, tried(Plan(cp=2, shard=1), 9.0))
    assert ": cannot tell" in text
    assert text.endswith(errors.UNKNOWN)


def test_why_compares_cause_by_cause():
    best = tried(Plan(shard=1), 1.0, compute=0.9, communication=0.1)
    other = tried(Plan(tp=4, shard=1), 1.5, compute=0.8, communication=0.7)
    lines = explain(report(best), other).splitlines()
    assert lines[1].endswith("+50%")
    assert lines[2].split() == ["communication", "700", "ms", "best", "100", "ms", "+60.0%", "of",
                                "its", "step"]  # fmt: skip
    too_large = tried(Plan(tp=4, shard=1), 1.5, memory=2**33)
    assert "does not fit: needs 8 GiB of 4 GiB" in explain(report(best), too_large)
    assert explain(report(best), best).endswith("the best plan")


CLUSTER = build_cluster(64, "h100", "nvlink4", 8, "ndr")


def test_flags_of_other_programs():
    plan = Plan(
        tp=4, pp=2, micro_batch=2, recompute="full", shard=1, schedule="interleaved", chunks=2
    )
    job = Job(SMALL, Program("optimizer", chunks=2), CLUSTER, 4, 8, 2, 2, 4)
    lines = flags("megatron", plan, job).splitlines()
    for line in ("--tensor-model-parallel-size 4", "--pipeline-model-parallel-size 2",
                 "--global-batch-size 64", "--micro-batch-size 2", "--sequence-parallel",
                 "--num-layers-per-virtual-pipeline-stage 1", "--use-distributed-optimizer",
                 "--recompute-granularity full"):  # fmt: skip
        assert line in lines
    lines = flags("torchtitan", plan, job).splitlines()
    for line in ("--parallelism.tensor_parallel_degree 4",
                 "--parallelism.data_parallel_shard_degree 8", "--training.local_batch_size 8",
                 "--training.global_batch_size 64",
                 "--parallelism.pipeline_parallel_schedule Interleaved1F1B",
                 "--parallelism.pipeline_parallel_layers_per_stage 1",
                 "--parallelism.pipeline_parallel_first_stage_less_layers 0",
                 "activation-checkpoint:full"):  # fmt: skip
        assert line in lines
    assert any(line.startswith("# torchtitan has no ZeRO-1") for line in lines)


def test_each_selective_recomputation_has_a_name_of_its_own():
    """Megatron's is attention alone; torchtitan's all but attention and every second product."""
    job = Job(SMALL, Program("optimizer"), CLUSTER, 1, 64, 1, 1, 1)
    core, products = (Plan(shard=1, recompute=name) for name in ("core_attn", "selective"))
    assert "--recompute-granularity selective\n--recompute-modules core_attn" in flags(
        "megatron", core, job
    )
    text = flags("megatron", products, job)
    assert "--recompute-granularity" not in text
    assert "its own selective is core_attn here" in text
    assert "\nactivation-checkpoint:selective" in flags("torchtitan", products, job)
    text = flags("torchtitan", core, job)
    assert "\nactivation-checkpoint:none\n" in text
    assert "# torchtitan cannot recompute attention alone" in text


def test_a_search_tries_recomputation_of_attention_alone_only_if_asked():
    assert {plan.recompute for plan in jobs_of()[0]} == {"none", "selective", "full"}
    assert {plan.recompute for plan in jobs_of(recompute="core_attn")[0]} == {"core_attn"}


@pytest.fixture
def small(tmp_path):
    path = tmp_path / "small.json"
    sizes = {
        "hidden_size": 1024, "num_attention_heads": 8, "num_hidden_layers": 4, "vocab_size": 8192,
        "max_position_embeddings": 1024, "hidden_act": "silu",
    }  # fmt: skip
    path.write_text(json.dumps(sizes), encoding="utf-8")
    return path


@pytest.mark.long
@pytest.mark.slow
def test_the_command(small, capsys):
    machine = ("--gpus", 4, "--gpu", "h100", "--batch", 8, "--recompute", "none",
               "--micro-batch", 2)  # fmt: skip
    code, text = command(capsys, small, *machine, "--search")
    assert code == 0
    for words in ("simulated, not measured", "unchanged: batch 8 sequences of 1,024 tokens",
                  "best", "baseline (tensor parallel in the node", "how sure", "plans rejected",
                  "by a lower bound (not a prediction)"):  # fmt: skip
        assert words in text, words
    assert "recompute=" not in text
    found = json.loads(command(capsys, small, *machine, "--search", "--json")[1])
    times = [row["step_time_seconds"] for row in found["plans"]]
    assert times == sorted(times)
    assert found["best"] == found["plans"][0]["plan"]
    assert found["error_of_comparison_share"] == errors.COMPARED
    code, text = command(capsys, small, *machine, "--why", "tp3")
    assert "is impossible: tp x pp x cp does not divide the GPUs\n  --tp 3" in text
    text = command(capsys, small, *machine, "--why", "tp4,mb2")[1]
    assert "against the best" in text
    assert "communication" in text
    assert "--bf16" in command(capsys, small, *machine, "--export", "megatron")[1]


def test_what_the_command_refuses(small, capsys):
    code, text = command(capsys, small, "--gpus", 4, "--why", "tp=x")
    assert code == 2
    assert "unknown plan option 'tp=x'" in text


def test_a_request_of_a_plan_has_the_rest_of_another_request():
    job = job_of(Plan(tp=2, pp=2, micro_batch=2, recompute="full", shard=1))
    assert (job.tensor, job.pipeline, job.micro_batch, job.data) == (2, 2, 2, 4)
    assert job.program.recompute == "full"
    assert job.cluster is REQUEST.cluster


OWN = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Linear(1024, 1024) for _ in range(4))

    def forward(self, x):
        for block in self.blocks:
            x = block(x).relu()
        return x

def model():
    return Net()

def batch(size):
    return torch.zeros(size * 4096, 1024)
"""


@pytest.fixture
def own(tmp_path):
    path = tmp_path / "own.py"
    path.write_text(OWN, encoding="utf-8")
    return path


@pytest.mark.long
@pytest.mark.slow
def test_a_model_of_ones_own_is_searched_in_the_same_way(own, capsys):
    machine = (own, "--gpus", 2, "--gpu", "a100", "--memory", "200MB", "--batch", 8)
    code, text = command(capsys, *machine, "--search")
    assert code == 0
    for words in ("unchanged: batch 8 samples, bfloat16; searched: micro-batch, recomputation",
                  "million parameters",
                  "best", "plans rejected", "needs more than 90% of a GPU's memory"):  # fmt: skip
        assert words in text, words
    found = json.loads(command(capsys, *machine, "--search", "--json")[1])
    assert found["rejected"] == {TOO_LARGE: 8}
    assert {parse(row["plan"]).micro_batch for row in found["plans"]} == {1}
    assert found["simulated"] == 8, "of twelve: four have twice the micro-batch of one too large"
    options = {"gpus": 2, "gpu": "a100", "memory": "200MB", "global_batch": 8}
    alone = sim.plan(own, **options, **vars(parse(found["best"])))
    assert alone.step_time_seconds == found["plans"][0]["step_time_seconds"]
    assert alone.mfu_share == pytest.approx(found["plans"][0]["mfu_share"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--search --tp 2", "--tp 2 cannot split"),
        ("--search --shard 1", "--shard 1 comes later for a .py file; give 0 or 3"),
        ("--search --sequence 9", "--sequence 9: batch(size)"),
        ("--search --dtype float8 --gpu h100", "--dtype float8 comes later"),
        ("--export megatron", "--export megatron needs the sizes of a model, not a .py file"),
    ],
)
def test_what_a_search_of_ones_own_model_refuses(own, capsys, options, message):
    code, text = command(capsys, own, *options.split())
    assert code == 2
    assert message in text


def test_if_no_program_runs_its_error_is_shown(own, capsys):
    own.write_text(OWN.replace("size * 4096, 1024", "size * 4096, 1000"), encoding="utf-8")
    code, text = command(capsys, own, "--gpus", 2, "--search")
    assert code == 2
    assert "the model does not run" in text
