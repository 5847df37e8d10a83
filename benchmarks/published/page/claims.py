"""What the page says in words, as comparisons: it is not written if one of them does not hold."""

import math

from benchmarks.published.page.assumed import ASSUMPTIONS, CONCLUSIONS

# The tables that miss a goal, whose misses the page explains.
MISSED = {
    "before": {"resnet50", "torchtitan"},
    "after": {"collectives", "gpt2", "megatron 2024", "nanotron", "resnet50", "torchgpipe"},
    "order": set(),
    "splits": {"vtrain"},
    "memory": set(),
}


def broken(numbers, launches, ranges, missed=None):
    """Return the claims that do not hold, in words.

    `numbers` are those of `findings.all_numbers`, `missed` those of `summary.missed`, the others
    what `assumed.study` returns.
    """
    claims = {
        **_messages(numbers), **_steps(numbers), **_orders(numbers),
        **_conclusions(launches, ranges),
        **(_programs(missed) | _worst(numbers) if missed else {}),
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
        "nanotron: the worst really took three times as long": 2.5 < 1 / n["nanotron_low"] < 3.5,
        "ResNet-50: really 1.7 times as long": 1.65 < 1 / n["resnet50_low"] < 1.75,
        "torchtitan: memory up to a third too low": 0.64 < n["torchtitan_memory"] < 0.7,
    }


def _messages(n):
    return {
        "small messages: about three times as fast as the real ones": n["small_least"] > 2.5
        and n["small_most"] < 3.5,
        "medium messages: too short, less so": n["small_high"] < n["medium_low"]
        and n["medium_high"] < 0.95,
        "medium messages: not steadily better": n["near_16"] < n["near_8"],
        "large messages: within a tenth, none too long": _within(n, "large", 0.1)
        and n["large_high"] < 1,
        "large messages on other boards: within a twentieth": _within(n, "others", 0.05),
        "over nodes: within a tenth": _within(n, "several", 0.1),
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
        "steps over nodes: one took twice as long": n["more_most"] > 2,
        "steps over nodes: launches do not matter": n["more_median"] == n["more_plain_median"],
        "steps over nodes: nearly all too short": n["more_high"] < 1.02,
        "far more too short than too long": n["below"] > 0.75 and n["too_long"] < 0.25,
    }


def _orders(n):
    shares = [n[f"order_{start}"] for start in (0, 5, 10, 20, 50)]
    return {
        "orders: the larger the difference, the more often right": shares == sorted(shares),
        "orders: under 5 % hardly better than a coin": shares[0] < 0.6,
        "orders: over 20 % right in nine of ten, over 50 % practically always": shares[3] > 0.9
        and shares[4] > 0.99,
        "choices: most are the best": n["choice_best"] > n["choice_jobs"] / 2,
        "choices: much better than chance": n["choice_best"] > 3 * n["choice_random_best"],
        "choices: a fifth is poor": n["choice_far"] > n["choice_jobs"] / 5,
        "choices over nodes: hardly slower than the best": n["more_choice"] < 0.01,
    }


def _conclusions(launches, ranges):
    fail = {
        (conclusion.words, place)
        for conclusion, columns in ranges.items()
        for place, values in enumerate(columns)
        if not all(map(conclusion.holds, values))
    }
    adding, overlap = CONCLUSIONS[0].words, CONCLUSIONS[-1]
    wires = [columns[4] for columns in ranges.values()]
    *_, lenet, resnet = launches.items()
    return {
        "conclusions: all but one hold in the whole ranges": fail == {(adding, 0), (adding, 1)},
        "assumptions: launches and kernels come first, wires fifth": "launch"
        in ASSUMPTIONS[0].words
        and "kernel" in ASSUMPTIONS[1].words
        and "wire" in ASSUMPTIONS[4].words,
        "wires: change nothing": all(
            math.isclose(min(values), max(values), rel_tol=0.01) for values in wires
        ),
        "overlap: next to nothing if launching is slow": 0.95 < launches[overlap][-1] < 1.05,
        "LeNet, 256 images each: turns around between 2 and 5 us": _turns(*lenet, 0),
        "ResNet-18, 32 images each: breaks even at 15 us": _turns(*resnet, 3)
        and launches[resnet[0]][3] < 1.05,
    }


def _turns(conclusion, values, last):
    """Say whether a conclusion holds up to the value in that place, and not from the next on."""
    return [conclusion.holds(v) for v in values] == [i <= last for i in range(len(values))]


def _within(numbers, name, share):
    return 1 - share < numbers[f"{name}_low"] and numbers[f"{name}_high"] < 1 + share
