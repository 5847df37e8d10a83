"""What the page says in words, as comparisons: it is not written if one of them does not hold."""


def broken(numbers, studies):
    """Return the claims that do not hold, in words.

    `numbers` are those of `findings.all_numbers`, `studies` the results of `assumed.STUDIES`:
    ``{what: [result for each value]}``.
    """
    n = numbers
    products, lenet, weak, slim, wide, copies = studies.values()
    claims = {
        "small messages: predicted far too short": n["small_high"] < 0.6,
        "medium messages: predicted too short, less so": n["small_high"] < n["medium_high"] < 0.95,
        "large messages: within a tenth": _within(n, "large", 0.1),
        "large messages on other boards: within a twentieth": _within(n, "others", 0.05),
        "over nodes: within a tenth": _within(n, "several", 0.1),
        "one point does not help collectives": n["collectives_point_median"]
        > n["collectives_median"],
        "steps on one node: half of them within a tenth": n["one_median"] < 0.1,
        "steps on one node: rank correlation": n["one_rank"] > 0.95,
        "steps on one node: nearly a third too short at worst": 0.25 < n["one_worst"] < 0.35,
        "one point does not help the fitted": n["one_point_median"] > n["one_median"],
        "without the fit: far worse": n["one_plain_median"] > 3 * n["one_median"],
        "without the fit: orders suffer": n["one_plain_rank"] < 0.9,
        "without the fit: one point does not help": n["one_plain_point_median"]
        > 0.9 * n["one_plain_median"],
        "steps over nodes: half of them within a tenth": n["more_median"] < 0.1,
        "steps over nodes: the worst takes twice as long": n["more_worst"] > 0.5,
        "steps over nodes: the fit does not matter": n["more_median"] == n["more_plain_median"],
        "steps over nodes: orders": n["more_rank"] > 0.95 and n["more_choice"] < 0.01,
        "choices: most are the best": n["one_best"] > n["one_jobs"] / 2,
        "choices: some are poor": n["one_choice"] > 0.25,
        "products: always twice as fast": min(products) > 1.99,
        "LeNet: a second GPU never helps, and at 2 us it does no harm": 0.95 < max(lenet) < 1,
        "LeNet: the more launching costs, the worse": lenet == sorted(lenet, reverse=True),
        "LeNet, weak scaling: turns around between 5 and 10 us": weak[1] > 1 > weak[2],
        "ResNet-18: always faster": min(slim) > 1.5 and min(wide) > 1.9,
        "copies: turn around": max(copies) > 3 and min(copies) < 1,
    }
    return [words for words, holds in claims.items() if not holds]


def _within(numbers, name, share):
    return 1 - share < numbers[f"{name}_low"] and numbers[f"{name}_high"] < 1 + share
