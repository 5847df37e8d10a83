"""What the page says in words, as comparisons: it is not written if one of them does not hold."""

import math

from benchmarks.published.page.programs import compiled, gallery
from benchmarks.published.study.assumed import ASSUMPTIONS, CONCLUSIONS

# The tables that miss a goal, whose misses the page explains.
MISSED = {
    "before": {"megascale", "megatron b200", "moe modelzoo"},
    "after": {
        "bridge",
        "megascale",
        "megatron 2024",
        "moe modelzoo",
        "more messages",
        "nanotron",
        "torchgpipe",
        "torchtitan",
        "vtrain",
    },
    "order": {"gpt2", "internevo", "large models", "moe modelzoo", "torchtitan"},
    "splits": {"internevo", "moe modelzoo", "torchtitan", "vtrain"},
    "memory": {"bridge", "nanotron"},
}


def broken(numbers, launches, ranges, missed=None):
    """Return the claims that do not hold, in words.

    `numbers` are those of `findings.all_numbers`, `missed` those of `summary.missed`, the others
    what `assumed.study` returns.
    """
    claims = {
        **_messages(numbers), **_steps(numbers), **_orders(numbers), **compiled.claims(),
        **gallery.claims(),
        **_conclusions(launches, ranges),
        **(_programs(missed) | _worst(numbers) | _added(numbers) if missed else {}),
    }  # fmt: skip
    return [words for words, holds in claims.items() if not holds]


def _programs(missed):
    return {
        f"goal {goal!r}: missed by {', '.join(sorted(MISSED[goal])) or 'none'}": found
        == MISSED[goal]
        for goal, found in missed.items()
    }


def _worst(n):
    return {
        "H100s of 500 W are hardly predicted worse than others": n["power_low"] - n["power_limited"]
        < 0.05,
        "8 bits: predicted near the published gain with a scale for each tensor": abs(
            n["eight_predicted"] / n["eight_tensor"] - 1
        )
        < 0.1,
        "nanotron: the worst really took three times as long": 2.5 < 1 / n["nanotron_low"] < 3.5,
        "nanotron: the worst of all programs": n["nanotron_low"] == n["programs_low"],
        "ResNet-50: no more than a quarter off": n["resnet50_low"] > 0.75,
        "memory: up to three tenths too low": 0.7 < n["memory_low"] < 0.75,
        "memory: half within an eighth": n["memory_median"] < 0.125,
        "programs: half within a fifth, after one point within a tenth": n["programs_median"] < 0.2
        and n["programs_point"] < 0.1,
        "programs: far more too short than too long": n["programs_below"] > 0.75,
        "programs: nine of ten between 0.6 and 1.2": n["programs_from"] > 0.55
        and n["programs_to"] < 1.25,
    }


def _added(n):
    return {
        "contexts: really up to twice as long, memory within a twentieth": n["context_low"] > 0.5
        and n["context_memory"] < 0.05,
        "rule of thumb: far worse than the prediction": n["thumb_rule_mean"]
        > 10 * n["thumb_mine_mean"]
        and n["thumb_rule_median"] > 0.25 > n["thumb_mine_median"],
        "more messages: half within an eighth, single ones half": n["other_one_median"] < 0.125
        and n["other_nodes_median"] < 0.125
        and n["other_nodes_low"] > 0.5,
        "bridge: Qwen3 lies between its two measurements": n["bridge_qwen_low"]
        < 1
        < n["bridge_qwen_high"],
        "memory: one run failed, and was said not to fit": n["failed"] == n["failed_said"] == 1,
        "memory: five runs are left out, and were said not to fit": n["unlike_rows"] == 5
        and n["unlike_least"] > 80,
    }


def _messages(n):
    flat = [n[f"flat_{place}"] for place in range(3)]
    return {
        "short messages: within a fifth": _within(n, "short", 0.2),
        "messages of 512 KiB to 2 MiB: too short, by more than half": n["between_low"] < 0.5
        and n["between_high"] < 0.9,
        "messages of 1, 2 and 4 MiB: the same times": max(flat) < 1.02 * min(flat),
        "medium messages: within a fifth": _within(n, "medium", 0.2),
        "large messages: within a twentieth": _within(n, "large", 0.05),
        "large messages on other boards: within a twentieth": _within(n, "others", 0.05),
        "over nodes: within an eighth": _within(n, "several", 0.125),
        **_sweeps(n),
    }


def _sweeps(n):
    places = {"one": (0.5, 0.1, 0.05), "nodes": (0.25, 0.2, 0.1)}
    sizes = ("small", "medium", "large")
    return {
        "sweeps: most of the lowest ratios are not of all-reduces": n["swept_worst_simple"] > 3,
        "sweeps: small messages of one node are all predicted too fast, and are few": n[
            "swept_one_small_high"
        ]
        < 0.9
        and n["swept_one_small_rows"] < 10,
        "sweeps: one node within a tenth from 2 MiB on, nodes up to a quarter": all(
            n[f"swept_{place}_{name}_median"] < limit
            for place, limits in places.items()
            for name, limit in zip(sizes, limits, strict=True)
        ),
        "sweeps: single messages really took twice as long": all(
            0.45 < n[f"swept_nodes_{name}_low"] < 0.6 for name in sizes
        )
        and 0.5 < n["swept_one_small_low"] < 0.65,
    }


def _steps(n):
    return {
        "steps on one node: half of them within a tenth": n["one_others_median"] < 0.1,
        "steps on one node: about a third off at worst": 0.25 < n["one_others_worst"] < 0.35,
        "without the fit: far worse": n["one_plain_median"] > 3 * n["one_median"],
        "without the fit: no common factor helps": n["one_plain_point_median"]
        > 0.9 * n["one_plain_median"],
        "tensor parallelism over 8: all-reduces explain little": n["tp8_missing"]
        > 4 * n["tp8_known"],
        "tensor parallelism over 4: too slow": n["tp4_error"] > 0.05,
        "steps over nodes: half of them within a tenth": n["more_median"] < 0.1,
        "steps over nodes: one took twice as long": n["more_most"] > 1.9,
        "steps over nodes: launches hardly matter": abs(n["more_median"] - n["more_plain_median"])
        < 0.001,
        "steps over nodes: none more than a tenth too long": n["more_high"] < 1.1,
        "more too short than too long": n["below"] > 0.55 and n["too_long"] < 0.35,
    }


def _orders(n):
    shares = [n[f"order_{start}"] for start in (0, 5, 10, 20, 50)]
    return {
        "orders: the larger the difference, the more often right": shares == sorted(shares),
        "orders: under 5 % little better than a coin": shares[0] < 0.65,
        "orders: over 20 % right in nine of ten, over 50 % practically always": shares[3] > 0.9
        and shares[4] > 0.99,
        "choices: most are the best": n["choice_best"] > n["choice_jobs"] / 2,
        "choices: much better than chance": n["choice_best"] > 3 * n["choice_random_best"],
        "choices: one in five is poor": 0.15 * n["choice_jobs"]
        < n["choice_far"]
        < 0.25 * n["choice_jobs"],
        "choices over nodes: hardly slower than the best": n["more_choice"] < 0.01,
    }


def _conclusions(launches, ranges):
    fail = {
        (conclusion.words, place)
        for conclusion, columns in ranges.items()
        for place, values in enumerate(columns)
        if not all(map(conclusion.holds, values))
    }
    adding = CONCLUSIONS[0].words
    overlap = next(c for c in CONCLUSIONS if "without overlap" in c.words)
    launch, kernel, collective, wire = (
        _place(name)
        for name in (
            "LAUNCH_OVERHEAD", "KERNEL_OVERHEAD", "COLLECTIVE_LAUNCH_OVERHEAD", "LINK_EFFICIENCY",
        )
    )  # fmt: skip
    *_, lenet, resnet = launches.items()
    return {
        "conclusions: all but one hold in the whole ranges": fail
        == {(adding, launch), (adding, kernel)},
        "wires, and the host's time for a collective: change nothing": all(
            math.isclose(min(columns[place]), max(columns[place]), rel_tol=0.01)
            for columns in ranges.values()
            for place in (wire, collective)
        ),
        "tensors over two nodes: lose least if arithmetic is slow": all(
            min(columns, key=min) is columns[_place("COMPUTE_EFFICIENCY")]
            for conclusion, columns in ranges.items()
            if "two nodes" in conclusion.words and "tensors" in conclusion.words
        ),
        "overlap: next to nothing if launching is slow": 0.95 < launches[overlap][-1] < 1.05,
        "LeNet, 256 images each: turns around between 2 and 5 us": _turns(*lenet, 0),
        "ResNet-18, 32 images each: breaks even at 15 us": _turns(*resnet, 3)
        and launches[resnet[0]][3] < 1.05,
    }


def _place(name):
    return next(place for place, a in enumerate(ASSUMPTIONS) if name in a.names)


def _turns(conclusion, values, last):
    """Return whether a conclusion holds up to the value in that place, and not from the next on."""
    return [conclusion.holds(v) for v in values] == [i <= last for i in range(len(values))]


def _within(numbers, name, share):
    return 1 - share < numbers[f"{name}_low"] and numbers[f"{name}_high"] < 1 + share
