"""What tables of published measurements say about the clock, as numbers by name."""

import itertools
import math
import statistics
from collections import defaultdict
from functools import lru_cache, partial

from benchmarks.published import orders, sweeps
from benchmarks.published.families import vtrain
from benchmarks.published.families.collectives import num_bytes
from benchmarks.published.page import constants, summary
from benchmarks.published.page.programs import compiled, gallery
from benchmarks.published.score import score
from benchmarks.published.study import eight_bits
from simgpu.hardware import assumptions, attention, matmul_efficiency
from simgpu.hardware.presets import find_gpu
from simgpu.network import measured
from simgpu.network.cluster import build_cluster
from simgpu.network.collective_costs import cost
from simgpu.network.networks import NETWORKS
from simgpu.units import size

SMALL, LARGE = 2**20, 2**29  # bytes: small messages up to the first, large ones from the second on
SHORT, MIDDLE = 2**18, 2**22  # between them the launching of one thread ends and wires begin
FLAT = (2**20, 2**21, 2**22)  # bytes: sizes whose published times are the same
FEW = 4  # rows of a table whose median is worth a word
REDUCES = 6  # all-reduces of a layer and micro-batch: two forward, again, and backward


def pairs(tables, family):
    """Return (row, prediction) of all tables of a family; raise ValueError if there are none."""
    found = [
        pair
        for table in tables
        if table.family == family
        for pair in zip(table.rows, table.predictions, strict=True)
    ]
    if not found:
        raise ValueError(f"no row of the family {family!r} was predicted; name a table of it")
    return found


def by_system(found):
    """Return ``{system: pairs}``, in the tables' order."""
    systems = dict.fromkeys(p.system for _, p in found)
    return {name: [pair for pair in found if pair[1].system == name] for name in systems}


def sweep(found):
    """Return the pairs of the one-node system with the most sizes of all-reduce, by size."""
    alone = [pair for pair in found if pair[0]["nodes"] == "1"]
    groups = by_system([pair for pair in alone if pair[0]["collective"] == "all_reduce"])
    if not groups:
        raise ValueError("the tables have no all_reduce on one node")
    most = max(groups.values(), key=lambda group: len({num_bytes(row) for row, _ in group}))
    return sorted(most, key=lambda pair: num_bytes(pair[0]))


def several_nodes(found):
    """Return the pairs of collectives over more than one node."""
    return [pair for pair in found if pair[0]["nodes"] != "1"]


def of_collectives(found):
    """Return the numbers about collectives."""
    swept = sweep(found)
    systems = {p.system for _, p in swept}
    sized = [(num_bytes(row), p) for row, p in swept]
    groups = {
        "short": [p for n, p in sized if n <= SHORT],
        "between": [p for n, p in sized if SHORT < n < MIDDLE],
        "medium": [p for n, p in sized if MIDDLE <= n < LARGE],
        "large": [p for n, p in sized if n >= LARGE],
        "others": [p for row, p in found if row["nodes"] == "1" and p.system not in systems],
        "several": [p for _, p in several_nodes(found)],
    }
    numbers = {"sweep_rows": len(swept), "several_rows": len(groups["several"])}
    numbers |= {"others_rows": len(groups["others"])}
    for place, at in enumerate(FLAT):
        numbers[f"flat_{place}"] = _only(p.measured for n, p in sized if n == at) * 1e6
    numbers["tp8_known"] = _only(p.measured - p.predicted for n, p in sized if n == FLAT[1]) * 1e6
    for name, group in groups.items():
        numbers |= _span(name, group)
    return numbers | _scores("collectives", [p for _, p in found])


def size_class(num_bytes):
    """Return which of `CLASSES` a message belongs to."""
    return "small" if num_bytes <= SMALL else "medium" if num_bytes < LARGE else "large"


CLASSES = {"small": "up to 1 MiB", "medium": "2 to 256 MiB", "large": "512 MiB or more"}
PLACES = {"one": "one node", "nodes": "two or four nodes"}


@lru_cache(maxsize=1)
def swept_classes():
    """Return ``{(place, class): [(row, bytes, ratio)]}`` of the sweeps; see `sweeps.judged`."""
    groups = {key: [] for key in itertools.product(PLACES, CLASSES)}
    for one in sweeps.judged():
        place = "one" if one[0]["nodes"] == "1" else "nodes"
        groups[place, size_class(one[1])].append(one)
    return groups


def of_sweeps():
    """Return the numbers about the sweeps, each machine predicted with what the others choose."""
    groups = swept_classes()
    rows = [one for group in groups.values() for one in group]
    numbers = {
        "swept_all": len(sweeps.rows()),
        "swept_choose": len(sweeps.chosen_by(sweeps.rows())),
        "swept_rows": len(rows),
        "swept_machines": len({row["system"] for row, *_ in rows}),
        "wire": measured.WIRE,
        "fill": size(measured.FILL),
    }
    for (place, name), group in groups.items():
        ratios = [ratio for *_, ratio in group]
        start = f"swept_{place}_{name}"
        numbers[f"{start}_median"] = statistics.median(abs(ratio - 1) for ratio in ratios)
        numbers[f"{start}_low"], numbers[f"{start}_high"] = min(ratios), max(ratios)
        numbers[f"{start}_rows"], numbers[f"{start}_most"] = len(group), 1 / min(ratios)
    for place in PLACES:
        parts = [groups[place, name] for name in CLASSES]
        ratios = [ratio for group in parts for *_, ratio in group]
        numbers[f"swept_{place}_least"] = 1 / max(ratios)
        numbers[f"swept_{place}_most"] = 1 / min(ratios)
    worst = (min(group, key=lambda one: one[2]) for group in groups.values())
    numbers["swept_worst_simple"] = sum(row["collective"] != "all_reduce" for row, *_ in worst)
    return numbers


def _only(values):
    return next(iter(values), float("nan"))


def _span(name, predictions):
    """Return the lowest and the highest ratio, and the factors that mend them."""
    ratios = [p.ratio for p in predictions] or [float("nan")]
    low, high = min(ratios), max(ratios)
    factors = {f"{name}_least": 1 / high, f"{name}_most": 1 / low}
    return {f"{name}_low": low, f"{name}_high": high} | factors


def of_steps(found, name):
    """Return the numbers about vTrain's steps, with `name` before each."""
    predictions = [p for _, p in found]
    others, plain = orders.not_fitted(predictions), orders.without_fit(predictions)
    numbers = {f"{name}_fitted": len(predictions) - len(others)}
    for part, group in (("", predictions), ("_others", others), ("_plain", plain)):
        numbers |= _scores(name + part, group) | _span(name + part, group)
    numbers |= {f"{name}_choice": orders.choices(predictions, name)[f"{name}_choice"]}
    return numbers


def of_choices(found):
    """Return the numbers about orders of splits and choices among them, on one node."""
    others = orders.not_fitted(p for _, p in found)
    shares = {
        f"order_{100 * low:.0f}": share
        for (low, _), (_, share) in zip(orders.CLASSES, orders.orders(others), strict=True)
    }
    plain = orders.choices(orders.without_fit(others), "choice_plain")
    return shares | orders.choices(others, "choice") | plain


def of_plans(tables):
    """Return how good the way is that predictions choose, in all jobs of steps, and by a rule."""
    found = [p for table in tables if table.family in ("vtrain", *_programs(tables))
             for p in table.predictions if p.measured is not None]  # fmt: skip
    found = orders.not_fitted(found)
    return orders.choices(found, "plan") | orders.rule_of_thumb(found, "thumb")


def _programs(tables):
    return {table.family for table in summary.programs(tables)}


def of_more_messages(tables):
    """Return the numbers about the messages of further machines, by place and size."""
    found = [
        pair for table in tables if table.family == "more messages"
        for pair in zip(table.rows, table.predictions, strict=True) if not pair[1].fitted
    ]  # fmt: skip
    numbers = {"other_rows": sum(t.family == "more messages" and len(t.rows) for t in tables)}
    for place, several in (("one", False), ("nodes", True)):
        group = [p for row, p in found if (row["nodes"] != "1") == several]
        errors = [abs(p.ratio - 1) for p in group] or [float("nan")]
        numbers[f"other_{place}_rows"] = len(group)
        numbers[f"other_{place}_median"] = statistics.median(errors)
        ratios = [p.ratio for p in group] or [float("nan")]
        numbers[f"other_{place}_low"], numbers[f"other_{place}_high"] = min(ratios), max(ratios)
        numbers[f"other_{place}_most"] = 1 / min(ratios)
    return numbers


def of_contexts(tables):
    """Return the numbers about steps with context parallelism."""
    found = [p for t in summary.programs(tables) for p in t.predictions if p.context > 1]
    ratios = [p.ratio for p in found if p.measured is not None] or [float("nan")]
    peaks = [abs(p.memory[1] / p.memory[0] - 1) for p in found if p.memory] or [float("nan")]
    return {"context_rows": len(found), "context_memory": max(peaks),
            "context_low": min(ratios), "context_high": max(ratios),
            "context_least": 1 / max(ratios), "context_most": 1 / min(ratios)}  # fmt: skip


def of_tensor_parallelism(found):
    """Return what is missing where tensor parallelism is wide, and too much where it is not."""
    missing, too_long = [], []
    for row, p in found:
        hidden, tensor = int(row["hidden size"]), int(row["tensor parallelism"])
        if (hidden, tensor, row["micro batch"]) == (1024, 8, "1"):
            micro_batches = int(row["global batch"]) // int(row["data parallelism"])
            reduces = REDUCES * micro_batches * int(row["# layers"])
            missing.append((p.measured - p.predicted) / reduces)
        if (hidden, tensor) == (2048, 4):
            too_long.append(p.ratio - 1)
    nan = [float("nan")]
    return {
        "tp8_missing": statistics.median(missing or nan) * 1e6,
        "tp4_error": statistics.median(too_long or nan),
    }


def _scores(name, predictions):
    found = score(predictions)
    point = found["one_point_per_system"]
    values = {
        "rows": found["rows"],
        "median": found["median_error"],
        "worst": found["worst_error"],
        "rank": found["rank_correlation"],
        "point_median": point["median_error"],
        "point_worst": point["worst_error"],
    }
    return {f"{name}_{key}": float("nan") if v is None else v for key, v in values.items()}


def of_presets():
    """Return the constants that the presets share."""
    hdr = NETWORKS["hdr"]
    return {
        "launch": vtrain.LAUNCH * 1e6,
        "launch_factor": vtrain.LAUNCH / assumptions.LAUNCH_OVERHEAD,
        "preset_launch": assumptions.LAUNCH_OVERHEAD * 1e6,
        "preset_collective": assumptions.COLLECTIVE_LAUNCH_OVERHEAD * 1e6,
        "preset_matmul": find_gpu("a100").matmul_efficiency,
        "thin": matmul_efficiency.THIN,
        "host_rate": assumptions.HOST_RATE / 1e9,
        "card_rate": hdr.nic_rate / 1e9,
        "one_thread": vtrain.GPUS_PER_NODE * assumptions.LAUNCH_OVERHEAD * 1e6,
        "flash_a100": attention.attention_efficiency(find_gpu("a100"), "flash", "bfloat16"),
        "flash_h100": attention.attention_efficiency(find_gpu("h100"), "flash", "bfloat16"),
        "cudnn": attention.attention_efficiency(find_gpu("h100"), "cudnn", "bfloat16"),
        "constants": len(constants.CONSTANTS),
        "constants_fitted": sum(c.kind == constants.FITTED for c in constants.CONSTANTS),
    }


def of_contention():
    """Return how much longer kernels take beside a long all-reduce on one board of eight GPUs."""
    numbers = {}
    for name in ("a100", "h100"):
        cluster = build_cluster(8, name)
        gpu, beside = cluster.gpu, cost("all_reduce", LARGE, range(8), cluster)
        numbers[f"channels_{name}"] = beside.channels
        numbers[f"multiprocessors_{name}"] = gpu.multiprocessors
        numbers[f"slower_{name}"] = 1 / (1 - beside.sm_share(gpu)) - 1
        numbers[f"slower_memory_{name}"] = 1 / (1 - beside.memory_share(gpu)) - 1
    return numbers


def of_eight_bits() -> dict:
    """Return what products of 8 bits gain: published, predicted, and from which width on."""
    found = eight_bits.read()
    few, many = sorted({one["tokens"] for one in found["by_width"]})
    return {
        "eight_tensor": eight_bits.TOKENS_TENSOR / eight_bits.TOKENS_16,
        "eight_row": eight_bits.TOKENS_ROW / eight_bits.TOKENS_16,
        "eight_predicted": found["published"],
        "eight_few": f"{few:,}",
        "eight_many": f"{many:,}",
        "eight_from_few": f"{_pays_from(found, few):,}",
        "eight_from_many": f"{_pays_from(found, many):,}",
    }


def _pays_from(found, tokens):
    pays = (
        one["width"] for one in found["by_width"] if one["tokens"] == tokens and one["gain"] > 1
    )
    return min(pays)


def of_power(tables) -> dict:
    """Return medians of predicted over published on H100s, with a stated limit and without."""
    found = defaultdict(list)
    for table in tables:
        found[table.family] += [p.ratio for p in table.predictions if _is_dense(p) and p.measured]
    medians = {f: statistics.median(ratios) for f, ratios in found.items() if len(ratios) >= FEW}
    return {
        "power_few": FEW,
        "power_limited": medians.pop("torchtitan", math.nan),
        "power_low": min(medians.values(), default=math.nan),
        "power_high": max(medians.values(), default=math.nan),
    }


def _is_dense(prediction):
    kind = prediction.kind
    return kind is not None and (kind.gpu, kind.model) == ("h100", "dense")


def all_numbers(tables):
    """Return ``{name: number}`` for the page's text."""
    messages, steps = pairs(tables, "collectives"), pairs(tables, "vtrain")
    one, more = one_node(steps), more_nodes(steps)
    numbers = of_collectives(messages) | of_sweeps() | of_presets() | of_contention()
    numbers |= of_steps(one, "one") | of_steps(more, "more")
    numbers |= of_choices(one) | of_tensor_parallelism(one)
    ratios = [p.ratio for _, p in (*messages, *steps)]
    numbers["below"] = sum(ratio < 1 for ratio in ratios) / len(ratios)
    numbers["too_long"] = max(ratios) - 1
    numbers |= summary.numbers(tables) | of_plans(tables) | of_more_messages(tables)
    numbers |= of_contexts(tables) | compiled.numbers() | gallery.numbers()
    numbers |= of_eight_bits() | of_power(tables)
    total = len(ratios) + numbers["programs_rows"] + numbers["other_rows"]
    fitted = sum(p.fitted for _, p in (*messages, *steps))
    return numbers | {"total_rows": total, "formula_rows": len(ratios), "steps_rows": len(steps),
                      "messages_rows": len(messages) + numbers["other_rows"],
                      "fitted_rows": fitted}  # fmt: skip


def _of_nodes(found, several):
    nodes = vtrain.GPUS_PER_NODE
    return [pair for pair in found if (int(pair[0]["# GPUs"]) > nodes) == several]


one_node, more_nodes = partial(_of_nodes, several=False), partial(_of_nodes, several=True)
