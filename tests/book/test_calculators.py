"""The calculators in a browser: their formulas against the simulator's functions and runs."""

import json
import random
import re
from dataclasses import replace

import pytest
import torch
from support.paths import ROOT
from support.programs.calculator_programs import OPTIMIZERS, peak_bytes, step_seconds

from d2lmini import sim
from simgpu.__main__ import main
from simgpu.compare import published
from simgpu.hardware.cards import CARDS, FAMILIES
from simgpu.hardware.presets import GPUS
from simgpu.network.cluster import build_cluster
from simgpu.network.collective_costs import cost
from simgpu.network.networks import NETWORKS
from simgpu.plan.presets import PRESETS
from tools import presets

SCRIPTS = ("words", "presets", "published", "nearest", "kernels", "model", "memory", "calculators")
PAGE = """<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>Calculators</title>
<meta name="viewport" content="width=device-width"><link rel="icon" href="data:,">
<link rel="stylesheet" href="{assets}/play.css"></head>
<body><h1>Calculators</h1>{body}</body></html>"""
COUNT, FEW = 50, 17
# Programs that run: fifty in all, and fifty of each kind for many minutes.
COUNTS = pytest.mark.parametrize("count", [FEW, pytest.param(COUNT, marks=pytest.mark.exhaustive)])
WITHIN = 0.01


@pytest.fixture(scope="module")
def tab(tab, tmp_path_factory):
    """Open a page with the calculators."""
    assets = (ROOT / "assets").as_uri()
    kinds = ("step", "scaling", "memory", "compare")
    body = "".join(f'<div class="d2l-calculator" data-of="{kind}"></div>' for kind in kinds)
    body += "".join(f'<script src="{assets}/{name}.js"></script>' for name in SCRIPTS)
    path = tmp_path_factory.mktemp("page") / "page.html"
    path.write_text(PAGE.format(assets=assets, body=body), encoding="utf-8")
    tab.call("Page.enable")
    watch = "addEventListener('error', event => (window.wrong ??= []).push(event.message));"
    tab.call("Page.addScriptToEvaluateOnNewDocument", source=watch)
    tab.open(path.as_uri())
    tab.wait("document.querySelectorAll('.d2l-output > *').length > 5")
    yield tab
    assert tab.ask("window.wrong ?? []") == []
    loaded = tab.ask("performance.getEntriesByType('resource').map(e => e.name)")
    assert all(name.startswith("file:") for name in loaded)


def test_presets_are_those_of_the_simulator():
    text = presets.PATH.read_text(encoding="utf-8")
    assert text == presets.text(), "write them anew: python -m tools.presets"
    text = presets.PUBLISHED.read_text(encoding="utf-8")
    assert text == presets.published_text(), "write them anew: python -m tools.presets"


def different(answers, expected):
    """Return the largest relative difference."""
    assert len(answers) == len(expected) >= FEW
    return max(abs(a / b - 1) for a, b in zip(answers, expected, strict=True))


def clusters(rng):
    nodes = rng.choice([1, 1, 2, 3, 4, 16])
    return {
        "link": rng.choice(list(presets.links())),
        "perNode": rng.choice([2, 3, 4, 5, 8]),
        "nodes": nodes,
        "network": rng.choice(list(NETWORKS)),
    }


def test_all_reduce_costs_what_the_simulator_charges(tab):
    rng, inputs, expected = random.Random(0), [], []
    for _ in range(400):
        c, num_bytes = clusters(rng), int(10 ** rng.uniform(1, 10))
        size = c["perNode"] * c["nodes"]
        cluster = build_cluster(size, "a100", c["link"], c["nodes"], c["network"])
        expected.append(cost("all_reduce", num_bytes, range(size), cluster).seconds)
        inputs.append([num_bytes, c])
    call = f"({json.dumps(inputs)}).map(x => d2lModel.allReduce(...x).seconds)"
    assert different(tab.ask(call), expected) < 1e-9


def steps(rng):
    """Return the input of a random step."""
    ranks = rng.choice([1, 2, 3, 4, 8])
    return {
        "width": rng.choice([512, 1000, 2048, 4096, 8192]),
        "layers": rng.randint(2, 12),
        "batch": rng.choice([1, 16, 100, 512, 2048, 4096]),
        "dtype": rng.choice(["float32", "tf32", "bfloat16", "float16"]),
        "gpu": rng.choice(list(GPUS)),
        "link": rng.choice(list(presets.links())),
        "perNode": ranks,
        "nodes": rng.choice([1, 2, 4]) if ranks == 8 else 1,
        "network": rng.choice(list(NETWORKS)),
        "bucket": rng.choice([1, 5, 25, 100]) * 2**20,
    }


def run_step(x):
    """Return the seconds of the step on simulated GPUs."""
    names = ("width", "layers", "batch", "dtype", "bucket")
    network = x["network"] if x["nodes"] > 1 else None
    where = {"gpu": x["gpu"], "link": x["link"], "nodes": x["nodes"], "network": network}
    args, ranks = tuple(x[name] for name in names), x["perNode"] * x["nodes"]
    (seconds,) = sim.spawn(
        step_seconds, args, nprocs=ranks, numerics=False, ranks=[0], **where
    )  # fmt: skip
    return seconds


@COUNTS
def test_steps_take_what_they_take_on_simulated_gpus(tab, count):
    rng, before = random.Random(1), torch.backends.cuda.matmul.allow_tf32
    inputs = [steps(rng) for _ in range(count)]
    try:
        expected = [run_step(x) for x in inputs]
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before
    answers = tab.ask(f"({json.dumps(inputs)}).map(x => d2lModel.step(x).seconds)")
    assert different(answers, expected) < WITHIN
    wrong = [{**x, "bucket": 2**40} for x in inputs]  # the test is able to see a bucket
    answers = tab.ask(f"({json.dumps(wrong)}).map(x => d2lModel.step(x).seconds)")
    assert different(answers, expected) > WITHIN


@COUNTS
def test_scaling_is_made_of_steps(tab, count):
    rng, inputs, expected = random.Random(2), [], []
    while len(inputs) < count:
        x, strong, k = steps(rng) | {"batch": 512}, rng.random() < 0.5, rng.choice([2, 4, 8, 16])
        cluster = {"perNode": min(k, 8), "nodes": max(k // 8, 1)}
        alone = run_step(x | {"perNode": 1, "nodes": 1})
        seconds = run_step(x | cluster | {"batch": 512 // k if strong else 512})
        expected.append((1 if strong else k) * alone / seconds)
        inputs.append([x, [k], strong])
    call = f"({json.dumps(inputs)}).map(x => d2lModel.scaling(...x)[0].speedup)"
    assert different(tab.ask(call), expected) < WITHIN


def run_memory(x):
    """Return the peak on simulated GPUs, of the rank that needs most."""
    names = ("width", "layers", "batch", "precision", "optimizer", "stage")
    args = tuple(x[name] for name in names)
    return max(sim.spawn(peak_bytes, args, nprocs=x["gpus"], gpu="b200", numerics=False))


@pytest.mark.slow
@COUNTS
def test_memory_is_what_simulated_gpus_allocate(tab, count):
    rng, inputs = random.Random(3), []
    for number in range(count):
        stage = number % 4
        inputs.append(
            {
                "width": rng.choice([512, 1000, 2048]),
                "layers": rng.randint(3, 16),
                "batch": rng.choice([1, 16, 100, 512, 2048, 4096, 10000]),
                "gpus": rng.choice([2, 4] if stage else [1, 2, 4]),
                "stage": stage,
                "optimizer": rng.choice(list(OPTIMIZERS)),
                "precision": rng.choice(["float32", "bfloat16", "mixed"]),
            }
        )
    expected = [run_memory(x) for x in inputs]
    found = tab.ask(f"({json.dumps(inputs)}).map(d2lMemory)")
    assert different([answer["peak"] for answer in found], expected) < WITHIN
    for answer in found:
        assert sum(answer["parts"].values()) == pytest.approx(answer["peak"])
        assert min(answer["parts"].values()) >= 0


def runs(rng, count):
    """Return runs of models of any size, and of presets."""
    for _ in range(count):
        billions = round(10 ** rng.uniform(-1, 3), 3)
        active = billions if rng.random() < 0.6 else billions / 4
        name = rng.choice([*PRESETS, "", ""])
        found = {"model": name, "billions": billions, "active": active}
        if name:
            found["billions"] = PRESETS[name].parameters / 1e9
        experts = bool(PRESETS[name].experts) if name else active < billions
        yield found | {
            "experts": experts, "gpu": rng.choice(list(GPUS)), "gpus": rng.randint(1, 20_000),
            "sequence": 2 ** rng.randint(8, 20), "rate": 10 ** rng.uniform(2, 8),
        }  # fmt: skip


def test_the_nearest_published_runs_are_those_of_the_command(tab):
    inputs = list(runs(random.Random(4), 200))
    found = tab.ask(f"({json.dumps(inputs)}).map(x => d2lNearest.nearest(x))")
    names = "billions", "experts", "gpu", "gpus", "sequence"
    for x, rows in zip(inputs, found, strict=True):
        expected = published.nearest(published.TrainingRun(**{name: x[name] for name in names}))
        assert [row["distance"] for row in rows] == pytest.approx([d for d, _ in expected])
        assert [{**row, "distance": 0} for row in rows] == [
            {**vars(row), "distance": 0} for _, row in expected
        ]


def test_the_mfu_of_a_run_is_that_of_the_command(tab):
    inputs = list(runs(random.Random(5), 100))
    expected = []
    for x in inputs:
        flops = 6e9 * x["active"]
        if x["model"]:
            model = replace(PRESETS[x["model"]], seq=x["sequence"])
            flops = model.flops(1) / model.seq
        peaks = GPUS[x["gpu"]].flops
        peak = peaks["bfloat16"] if peaks["bfloat16"] > peaks["float32"] else peaks["float16"]
        expected.append(x["rate"] * flops / x["gpus"] / peak)
    found = tab.ask(f"({json.dumps(inputs)}).map(d2lNearest.mfu)")
    assert different(found, expected) < 1e-9


def test_the_command_to_copy_is_accepted_and_says_the_same_mfu(tab, capsys):
    x = {"model": "gpt2-124m", "gpu": "h100", "gpus": 4, "sequence": 512, "rate": 123456.5}
    mfu, words = tab.ask(f"(x => [d2lNearest.mfu(x), d2lNearest.command(x)])({json.dumps(x)})")
    assert main([*words.split()[1:], "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["measured_mfu_share"] == pytest.approx(mfu)
    assert found["measured_tokens_per_second"] == pytest.approx(123456.5)


def test_the_form_shows_rows_mfu_and_command(tab):
    shown = value(tab, "compare", "many", "8")
    assert "simgpu compare llama3-8b --gpus 8 --gpu h100" in shown
    assert "The nearest published runs:" in shown
    shown = value(tab, "compare", "trained", "llama3-70b")
    form = FORM.format("compare")
    sizes = [float(tab.ask(f"{form}.{n}.value")) for n in ("billions", "active", "sequence")]
    whole = PRESETS["llama3-70b"].parameters / 1e9
    assert sizes == pytest.approx([whole, whole, 8192], rel=1e-5)
    assert "MFU of your run" in shown
    assert "No published run is near." in value(tab, "compare", "gpu", "v100")
    value(tab, "compare", "gpu", "h100")
    assert "More than these GPUs can compute" in value(tab, "compare", "rate", "1e9")
    value(tab, "compare", "rate", "60000")
    value(tab, "compare", "many", "8")
    value(tab, "compare", "billions", "47.5")
    assert tab.ask(f"{form}.trained.value") == ""
    assert tab.ask(f"{form}.active.value") == "47.5", "a token uses all, as in the model before"
    shown = value(tab, "compare", "active", "70")
    assert "Used for a token (billion): give at most all parameters." in shown
    assert "simgpu compare model.json" in value(tab, "compare", "active", "13")
    assert value(tab, "compare", "many", "0") == "GPUs: give a whole number from 1 to 1,000,000."
    value(tab, "compare", "many", "8")


# The page


def value(tab, kind, name, new):
    """Change a field of a calculator as a reader does; return the answers that it shows."""
    return tab.ask(
        f"""(() => {{
            const root = document.querySelector('.d2l-calculator[data-of={kind}]');
            const field = root.querySelector('[name={name}]');
            field.value = {new!r};
            field.dispatchEvent(new Event(field.tagName == 'SELECT' ? 'change' : 'input'));
            return root.querySelector('.d2l-output').innerText;
        }})()"""
    )


def test_fields_change_the_answer(tab):
    kinds = {"step": "batch", "scaling": "together", "memory": "batch"}
    for kind, name in kinds.items():
        assert value(tab, kind, name, "64") != value(tab, kind, name, "8192")
    assert value(tab, "memory", "stage", "0") != value(tab, "memory", "stage", "3")
    assert "does not fit" in value(tab, "memory", "layers", "400")
    assert "fits" in value(tab, "memory", "layers", "4").splitlines()


def test_the_transformer_of_the_page_fits_as_the_page_says(tab):
    page = (ROOT / "chapters" / "calculators.md").read_text(encoding="utf-8")
    page = " ".join(page.split())
    blocks, width = map(int, re.search(r"with (\d+) layers of width (\d+) becomes", page).groups())
    layers, billions = re.search(
        r"becomes (\d+) layers of .*?, which are ([\d.]+) billion", page
    ).groups()
    assert int(layers) == 12 * blocks
    tried = re.search(r"Try (\d+) layers of width (\d+) on four GPUs of type `(\w+)`", page)
    assert tried.groups() == (layers, str(width), "a100")
    for name, new in {"width": width, "layers": layers, "gpus": 4, "gpu": "a100"}.items():
        value(tab, "memory", name, str(new))
    sharded, whole = (value(tab, "memory", "stage", stage) for stage in "30")
    assert f"{float(billions):.1f}" == f"{width**2 * int(layers) / 1e9:.1f}"
    assert "fits" in sharded.splitlines()
    assert "does not fit" in whole.splitlines()


def test_a_gpu_brings_its_usual_link(tab):
    for name, card in CARDS.items():
        value(tab, "step", "gpu", name)
        assert tab.ask("document.querySelector('[data-of=step] [name=link]').value") == card.link
    value(tab, "step", "gpu", "a100")


@pytest.mark.parametrize("bad", ["", "0", "-3", "2.5", "999999999"])
def test_what_makes_no_sense_is_named(tab, bad):
    shown = value(tab, "step", "width", bad)
    assert shown == "Width of a layer: give a whole number from 64 to 65,536."
    assert "a step (simulated)" in value(tab, "step", "width", "4096")


def test_every_field_has_a_label_and_fits_a_phone(tab):
    missing = "[...document.querySelectorAll('input, select')].filter(e => !e.labels.length).length"
    assert tab.ask(missing) == 0
    for width in (390, 1280):
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
        tab.call("Emulation.setDeviceMetricsOverride", **size)
        tab.ask("new Promise(done => setTimeout(done, 300))")
        assert tab.ask("document.documentElement.scrollWidth") <= width
    tab.call("Emulation.clearDeviceMetricsOverride")


def test_a_drawing_is_as_wide_as_its_page_when_that_changes(tab):
    of_step = "document.querySelector('.d2l-calculator[data-of=step]')"
    for width in (1280, 390):
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
        tab.call("Emulation.setDeviceMetricsOverride", **size)
        tab.wait(
            f"{of_step}.querySelector('svg').viewBox.baseVal.width == {of_step}.clientWidth - 34"
        )
    tab.call("Emulation.clearDeviceMetricsOverride")


FORM = "document.querySelector('.d2l-calculator[data-of={}] form').elements"


def test_a_model_fills_the_fields_and_a_link_keeps_them(tab):
    form = FORM.format("memory")
    change = ".dispatchEvent(new Event('change'))"
    tab.ask(f"{form}.model.value = 'llama3-8b'; {form}.model{change}")
    width, layers = (int(tab.ask(f"{form}.{name}.value")) for name in ("width", "layers"))
    assert width == 4096
    assert layers * width**2 == pytest.approx(8.03e9, rel=0.01), "as many weights as the model"
    link = "document.querySelector('[data-of=memory] .d2l-share').href"
    address = tab.ask(link)
    assert "memory.model=llama3-8b" in address
    tab.open(address)
    tab.wait(f"{form}?.layers.value == '{layers}'")
    assert tab.ask(f"{form}.model.value") == "llama3-8b"
    tab.ask(f"{form}.width.value = 64; {form}.width.dispatchEvent(new Event('input'))")
    assert tab.ask(f"{form}.model.value") == "", "these are no longer that model's numbers"


def fields(tab, kind):
    """Return the values of a calculator's fields."""
    named = f"[...{FORM.format(kind)}].filter(e => e.name).map(e => [e.name, e.value])"
    return dict(tab.ask(named))


def test_what_is_entered_is_in_all_calculators_and_stays(tab):
    tab.ask("history.replaceState(null, '', location.pathname)")  # no link's numbers
    value(tab, "memory", "model", "llama3-70b")
    value(tab, "memory", "gpus", "32")
    value(tab, "compare", "gpu", "h100")
    own = fields(tab, "memory")
    expected = {"model": "llama3-70b", "width": "8192", "layers": own["layers"], "gpu": "h100"}
    for _ in range(2):
        step, compare = fields(tab, "step"), fields(tab, "compare")
        assert step == step | expected | {"perNode": "8", "nodes": "4", "link": "nvlink4"}
        assert compare == compare | {"trained": "llama3-70b", "many": "32", "sequence": "8192"}
        assert float(compare["billions"]) == pytest.approx(70.55, rel=0.01)
        assert fields(tab, "memory") == own | {"gpu": "h100"}
        tab.call("Page.reload")
        tab.wait("document.readyState === 'complete' && !!document.querySelector('.d2l-output dl')")
    value(tab, "step", "width", "512")
    assert fields(tab, "memory")["model"] == "", "these are no longer that model's numbers"
    assert fields(tab, "compare")["trained"] == "llama3-70b", "the nearest that it can say"
    value(tab, "compare", "many", "1000000")
    assert fields(tab, "memory")["gpus"] == "32", "more than that calculator takes"
    tab.ask("document.querySelector('[data-of=step] button.d2l-share').click()")
    assert fields(tab, "memory")["layers"] == "24"
    assert fields(tab, "compare")["gpu"] == "h100"
    assert fields(tab, "step")["gpu"] == "a100"
    tab.ask("localStorage.clear()")


def test_gpus_stand_in_families(tab):
    groups = f"[...{FORM.format('step')}.gpu.children]"
    found = tab.ask(f"{groups}.map(g => [g.label, [...g.children].map(o => o.value)])")
    assert [label.lower() for label, _ in found] == [family.lower() for family in FAMILIES]
    assert [cards for _, cards in found] == [[c.name for c in cards] for cards in FAMILIES.values()]


def test_hardware_has_the_names_that_people_write(tab):
    named = "Object.fromEntries([...{}.{}.options].map(o => [o.value, o.text]))"
    gpus, links = (tab.ask(named.format(FORM.format("step"), n)) for n in ("gpu", "link"))
    assert gpus["a100"] == "A100 SXM4 80GB"
    assert gpus["rtx4090"] == "GeForce RTX 4090"
    assert (links["nvlink3"], links["pcie4"]) == ("NVLink 3", "PCIe 4")
    assert links["pcie4_bridge112"] == "PCIe 4, NVLink 112.5 GB/s"
    assert links["pcie5:staged:2xsapphire-rapids"] == "PCIe 5, staged, 2 \u00d7 sapphire-rapids"
    networks = tab.ask(named.format(FORM.format("step"), "network"))
    assert networks["hdr"] == "InfiniBand HDR"
    assert networks["ethernet100"] == "Ethernet 100"
