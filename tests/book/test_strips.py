"""Strips: their films against the algorithms, and what a browser draws against the pictures."""

import json
import re
from itertools import pairwise

import nbformat
import pytest
import torch
import torch.distributed as dist
from support.paths import CHAPTERS, ROOT

from d2lmini import sim
from d2lmini.pages.collectives import ring
from tools.figures.strips import experts, mesh, schedules, sequence, sums, tensor, zero
from tools.figures.strips.film import COLOURS
from tools.figures.strips.kinds import KINDS, films
from tools.pages.strips import data

PAGE = """<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>Strips</title>
<meta name="viewport" content="width=device-width"><link rel="icon" href="data:,">
<link rel="stylesheet" href="{assets}/play.css"><link rel="stylesheet" href="{assets}/strip.css">
</head><body><h1>Strips</h1>{body}<script src="{assets}/words.js"></script>
<script src="{assets}/strip.js"></script></body></html>"""
P_M = [(p, m) for p in (2, 3, 4, 8) for m in (1, 2, 4, 8, 16)]


def cells_of(name, *beginnings):
    """Run the cells of a chapter that define names; return these."""
    page = nbformat.read(CHAPTERS / f"{name}.ipynb", as_version=4)
    names = {}
    code = [cell.source for cell in page.cells if cell.cell_type == "code"]
    imports = re.sub(r"(?m)^.*glue.*$|^%.*$", "", code[0])
    for source in [imports, *code]:
        if source is imports or any(begin in source for begin in beginnings):
            exec(source, names)
    return names


# ZeRO


@pytest.mark.process
@pytest.mark.parametrize("stage", ["ZeRO-1", "ZeRO-2", "ZeRO-3"])
def test_bytes_of_a_stage_are_those_that_the_chapters_class_takes(stage):
    chapter = cells_of(
        "memory-and-sharding", "def flatten(", "def reduce_scatter(", "class Zero", "def zero_step",
        "def after_forward", "def network(", "def batches(",
    )  # fmt: skip
    make = chapter[stage.replace("ZeRO-", "Zero")]
    width, depth = 256, zero.LAYERS

    def train(rank):
        dist.init_process_group()
        device = torch.accelerator.current_accelerator()
        model = chapter["network"](width, depth, device).to(device, torch.bfloat16)
        count = sum(p.numel() for p in model.parameters())
        layers, found = [make(layer) for layer in model], []
        for X in chapter["batches"](rank, width, steps=2, batch_size=1):
            (model(X.to(device, torch.bfloat16)) - 1).square().mean().backward()
            found.append(sim.memory_allocated(device) / count)
            chapter["zero_step"](layers)
            found.append(sim.memory_allocated(device) / count)
        return found[-2:]

    noted = [(event, zero.bytes_held(held)) for event, held in zero.Step(stage).noted]
    after = "Reduce-scatter all" if stage == "ZeRO-1" else "Update"
    place = next(i for i, (event, _) in enumerate(noted) if event.startswith(after))
    ours = [noted[place - 1][1], noted[-1][1]]
    for measured in sim.spawn(train, nprocs=zero.RANKS, numerics=False):
        assert measured == pytest.approx(ours, rel=0.02)


def test_stages_hold_what_the_chapters_table_says():
    n, layer = zero.RANKS, 16 / zero.LAYERS
    table = {"DDP": 16, "ZeRO-1": 4 + 12 / n, "ZeRO-2": 2 + 14 / n, "ZeRO-3": 16 / n}
    for stage, formula in table.items():
        most = max(zero.bytes_held(held) for _, held in zero.Step(stage).noted)
        assert formula <= most < formula + layer, stage


# Pipelines


CASES = [
    (schedule, p, m)
    for schedule in schedules.SCHEDULES
    for p, m in P_M
    if schedules.virtual(schedule) == 1 or m % p == 0  # interleaved: p micro-batches at a time
]


@pytest.mark.parametrize(("schedule", "p", "m"), CASES)
def test_a_schedule_is_a_schedule(schedule, p, m):
    v = schedules.virtual(schedule)
    passes = schedules.run(schedule, p, m)
    kinds = "FBW" if schedule == "zero bubble" else "FB"
    assert sorted((w.kind, w.micro, w.chunk, w.rank) for w in passes) == sorted(
        (kind, i, c, r) for kind in kinds for i in range(m) for c in range(v) for r in range(p)
    )
    at = {(w.kind, w.micro, w.chunk * p + w.rank): w for w in passes}
    for (kind, i, stage), work in at.items():
        if kind == "F" and stage:
            assert at["F", i, stage - 1].end <= work.start
        if kind == "B":
            before = ("B", i, stage + 1) if stage < p * v - 1 else ("F", i, stage)
            assert at[before].end <= work.start
        if kind == "W":
            assert at["B", i, stage].end <= work.start
    for rank in range(p):
        mine = sorted((w.start, w.end) for w in passes if w.rank == rank)
        assert all(a[1] <= b[0] for a, b in pairwise(mine))


@pytest.mark.parametrize(("p", "m"), P_M)
def test_bubble_and_live_micro_batches_are_those_of_the_formulas(p, m):
    for schedule in schedules.SCHEDULES:
        v = 3 if schedule == "zero bubble" else schedules.virtual(schedule)
        if schedule not in ("GPipe", "1F1B") and (m % p or m < p):
            continue
        of_step, of_ideal = schedules.bubble(schedules.run(schedule, p, m))
        assert of_step == pytest.approx((p - 1) / (v * m + p - 1)), schedule
        assert of_ideal == pytest.approx((p - 1) / (v * m)), schedule
    one_stage = [s for s in schedules.SCHEDULES if schedules.virtual(s) == 1]
    for rank in range(p):
        live = [schedules.most_live(schedules.run(s, p, m), rank) for s in one_stage]
        assert live[:2] == [m, min(p - rank, m)]
        assert live[-1] <= min(p, m)


def test_orders_are_those_of_the_chapters_schedules():
    chapter = cells_of("pipeline-parallelism", "class Stage:", "def gpipe(", "def one_f_one_b(")
    for name, function in (("GPipe", "gpipe"), ("1F1B", "one_f_one_b")):
        for p, m in P_M:
            for rank in range(p):
                ours = [(w.kind, w.micro) for w in schedules.order(name, rank, p, m)]
                theirs = chapter[function](rank, p, m)
                assert ours == [(kind[0].upper(), i) for kind, i in theirs]


def test_interleaving_needs_a_multiple_of_p():
    with pytest.raises(ValueError, match="m = 6 is no multiple of p; take 4"):
        schedules.run("interleaved, v = 2", 4, 6)


# Sums


def sums_of_chapter():
    chapter = cells_of("collectives", "def exchange(", "def tree(", "def hierarchical(")
    functions = ring, chapter["tree"], lambda x: chapter["hierarchical"](x, 2)
    return dict(zip(sums.WAYS, functions, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("way", sums.WAYS)
def test_ranks_hold_what_the_chapters_programs_leave(way):
    first, *_, last = sums.states(way)
    assert [[set(part) for part in row] for row in first] == [[{r}] * 4 for r in sums.ALL]
    assert all(part == set(sums.ALL) for row in last for part in row)

    def program(rank, allreduce):
        dist.init_process_group()
        x = torch.full((4,), 10.0**rank, device=torch.accelerator.current_accelerator())
        allreduce(x)

    sim.spawn(program, (sums_of_chapter()[way],), nprocs=4, nodes=4, network="hdr")
    spans = [s for s in sim.trace() if s.engine == "comm"]
    messages = [message for step in sums.steps(way) for message in step]
    for rank in sums.ALL:
        theirs = [s.bytes // 4 for s in spans if s.device.startswith(f"rank {rank} ")]
        ours = [len(m[2]) for m in messages if rank in m[:2]]  # a span for each end
        assert theirs == ours, rank


def test_steps_are_as_many_as_the_chapters_formulas_have():
    n = sums.RANKS
    assert len(sums.steps("ring")) == 2 * (n - 1)
    assert len(sums.steps("tree")) == 2 * (n - 1).bit_length()


# Other splits


@pytest.mark.parametrize("order", sequence.ORDERS)
def test_blocks_are_those_of_a_causal_mask(order):
    each = 4
    mask = torch.ones(sequence.CHUNKS * each, sequence.CHUNKS * each).tril()
    tiles = mask.unfold(0, each, each).unfold(1, each, each).sum((2, 3))
    met = []
    for rank in range(sequence.RANKS):
        for step in range(sequence.RANKS):
            mine = sequence.blocks(rank, step, order)
            met += mine
            exact = sum(tiles[q, k].item() for q, k in mine) / each**2
            assert abs(exact - sequence.work(rank, step, order)) <= len(mine) / (2 * each)
    assert sorted(met) == [tuple(pair) for pair in tiles.nonzero().tolist()]
    n = sequence.RANKS
    expected = {"zigzag": 2 * n, "neighbouring chunks": 4 * (n - 0.5)}
    assert sequence.duration(order) == expected[order]


def all_to_all(rank):
    """Return the rows of a rank after each exchange, with the calls of a program."""
    dist.init_process_group()
    device = torch.accelerator.current_accelerator()
    chosen = torch.tensor(experts.CHOSEN[rank])
    order = chosen.argsort(stable=True)
    rows = torch.stack([torch.full_like(order, rank), order, chosen[order]], 1).to(device)
    counts = (chosen // experts.EACH).bincount(minlength=experts.RANKS)
    arriving = torch.empty_like(counts.to(device))
    dist.all_to_all_single(arriving, counts.to(device))
    sent = torch.empty(int(arriving.sum()), 3, dtype=rows.dtype, device=device)
    sizes = arriving.tolist(), counts.tolist()
    dist.all_to_all_single(sent, rows, *sizes)
    home = torch.empty_like(rows)
    dist.all_to_all_single(home, sent, *reversed(sizes))
    return sent.tolist(), home.tolist()


@pytest.mark.process
def test_rows_are_those_of_two_all_to_alls():
    rows = [state for _, state in experts.states()]
    for rank, (sent, home) in enumerate(sim.spawn(all_to_all, nprocs=experts.RANKS)):
        assert [list(row) for row in rows[2][rank]] == sent
        assert [list(row) for row in rows[5][rank]] == home
        assert [row[2] for row in rows[3][rank]] == sorted(row[2] for row in sent)


@pytest.mark.process
@pytest.mark.parametrize("name", mesh.MESHES)
def test_groups_are_those_of_a_device_mesh(name):
    axes = mesh.MESHES[name]

    def groups(rank):
        from torch.distributed.device_mesh import init_device_mesh

        dist.init_process_group()
        device = torch.accelerator.current_accelerator()
        made = init_device_mesh(device.type, tuple(axes.values()), mesh_dim_names=tuple(axes))
        return tuple(made.get_coordinate()), {
            axis: dist.get_process_group_ranks(made.get_group(axis)) for axis in axes
        }

    for rank, (where, found) in enumerate(sim.spawn(groups, nprocs=mesh.RANKS)):
        assert mesh.coordinates(rank, list(axes.values())) == where
        for axis, members in found.items():
            assert members in mesh.groups(axes, axis)
            assert rank in members


def split_mlp(rank, by_tokens):
    """Return the shape of what a rank holds in each region of an MLP."""
    dist.init_process_group()
    device, t = torch.accelerator.current_accelerator(), dist.get_world_size()
    s, h = tensor.TOKENS, tensor.WIDTH_H
    x = torch.empty(s // t if by_tokens else s, h, device=device, dtype=torch.bfloat16)
    held = [x]
    if by_tokens:
        parts = [torch.empty_like(x) for _ in range(t)]
        dist.all_gather(parts, x)
        x = torch.cat(parts)
    held.append(x)
    held.append(x @ torch.empty(h, 4 * h // t, device=device, dtype=x.dtype))
    held.append(held[-1] @ torch.empty(4 * h // t, h, device=device, dtype=x.dtype))
    y = held[-1]
    if by_tokens:
        y = torch.empty(s // t, h, device=device, dtype=x.dtype)
        dist.reduce_scatter_tensor(y, held[-1])
    else:
        dist.all_reduce(y)
    return [part.nbytes for part in (*held, y)]


@pytest.mark.process
@pytest.mark.parametrize("split", tensor.SPLITS)
def test_regions_hold_what_a_split_mlp_holds(split):
    told = [tensor.megabytes(tokens, share) for _, tokens, share, _, _ in tensor.regions(split)]
    by_tokens = split == tensor.SPLITS[1]
    how = {"nprocs": tensor.RANKS, "numerics": False}
    for found in sim.spawn(split_mlp, (by_tokens,), **how):
        assert told == pytest.approx([size / 1e6 for size in found])


# The page


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_all_steps_are_said_and_shown(kind):
    for chosen, film in films(kind).items():
        assert len(set(film.says)) == len(film.says), chosen
        shown = [json.dumps(film.at(step)) for step in range(len(film.says))]
        if kind not in ("zero", "experts"):  # an all-reduce changes values, not what is held
            assert len(set(shown)) == len(shown), chosen


@pytest.mark.parametrize("chosen", [["2"], ["ZeRO-4"], ["DDP", "DDP"]])
def test_a_choice_that_there_is_not_is_refused(chosen):
    with pytest.raises(ValueError, match="is no choice of"):
        data("zero", chosen)


@pytest.fixture(scope="module")
def page(tab, tmp_path_factory):
    """Open a page with a strip of each kind."""
    body = "".join(
        f'<div class="d2l-strip" id="{kind}"><p><img alt=""></p>'
        f'<script type="application/json">{data(kind)}</script></div>'
        for kind in KINDS
    )
    path = tmp_path_factory.mktemp("page") / "page.html"
    text = PAGE.format(assets=(ROOT / "assets").as_uri(), body=body)
    path.write_text(text, encoding="utf-8")
    tab.call("Page.enable")
    watch = "addEventListener('error', event => (window.wrong ??= []).push(event.message));"
    tab.call("Page.addScriptToEvaluateOnNewDocument", source=watch)
    tab.open(path.as_uri())
    tab.wait(f"document.querySelectorAll('.d2l-player').length == {len(KINDS)}", 20)
    yield tab
    assert tab.ask("window.wrong ?? []") == []


WALK = """
    (() => {
        const root = document.getElementById('%s'), seen = [];
        %s.forEach((value, i) => {
            const select = root.querySelectorAll('select')[i];
            select.value = value; select.onchange();
        });
        for (;;) {
            const marks = [...root.querySelectorAll('svg > *')].slice(1).map((e) => e.tagName === 'rect'
                ? ['x', 'y', 'width', 'height'].map((n) => +e.getAttribute(n)).concat(e.getAttribute('fill'))
                : e.textContent);
            seen.push([root.querySelector('.d2l-status').textContent, marks]);
            const next = root.querySelectorAll('button')[2];
            if (next.getAttribute('aria-disabled') === 'true') return seen;
            next.click();
        }
    })()
"""  # noqa: E501


@pytest.mark.parametrize("kind", KINDS)
def test_the_browser_draws_every_step_of_the_film(page, kind):
    for chosen, film in films(kind).items():
        seen = page.ask(WALK % (kind, json.dumps(chosen)))
        assert len(seen) == len(film.says)
        for step, (said, marks) in enumerate(seen):
            assert said == f"{step + 1} of {len(film.says)}: {film.says[step]}"
            expected = []
            for x, y, w, h, colour, text, *_ in film.at(step):
                expected += [[x, y, w, h, COLOURS[colour]]] if w else []
                expected += [text] if text else []
            assert marks == expected


def test_keys_step_and_screen_readers_are_told(page):
    page.ask("document.querySelector('#zero button:nth-of-type(3)').focus()")
    page.ask("document.querySelector('#zero button').click()")
    says = films("zero")[("DDP",)].says
    where = "document.querySelector('#zero select').value = 'DDP'"
    page.ask(f"({where}, document.querySelector('#zero select').onchange())")
    last = len(says) - 1
    for key, number in (("ArrowRight", 1), ("ArrowLeft", 0), ("End", last), ("Home", 0)):
        for kind in ("keyDown", "keyUp"):
            page.call("Input.dispatchKeyEvent", type=kind, key=key)
        assert says[number] in page.ask("document.querySelector('#zero .d2l-status').textContent")
        label = page.ask("document.querySelector('#zero svg').ariaLabel")
        assert label == f"{KINDS['zero'][0]}. {says[number]}"
    assert page.ask("document.querySelector('#zero .d2l-status').role") == "status"


@pytest.mark.parametrize("width", [360, 1280])
def test_nothing_is_wider_than_the_page(page, width):
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    page.call("Emulation.setDeviceMetricsOverride", **size)
    assert page.ask("document.documentElement.scrollWidth") <= width
    page.call("Emulation.clearDeviceMetricsOverride")
