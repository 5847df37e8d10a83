"""Results as text: one table, and what became slower since a record."""

from benchmarks.records import row_key

TOLERANCE = 0.05  # smaller changes are not worth a report, whatever the spread


def number(value):
    """Write a number with three significant digits, without an exponent where it can be read."""
    if value == 0:
        return "0"
    if abs(value) >= 1000:
        digits = len(str(int(abs(value))))
        return f"{round(value, 3 - digits):,.0f}"
    return f"{value:.3g}"


def quantity(value, unit):
    """Write a value with its unit: seconds as s, ms or µs; bytes as kB or MB.

    Examples
    --------
    >>> quantity(0.00123, "s"), quantity(2_500_000, "B"), quantity(1234.5, "images/s")
    ('1.23 ms', '2.5 MB', '1,230 images/s')
    """
    scales = {"s": ((1, "s"), (1e-3, "ms"), (1e-6, "µs")), "B": ((1e6, "MB"), (1e3, "kB"))}
    for scale, name in scales.get(unit, ()):
        if value >= scale:
            return f"{number(value / scale)} {name}"
    return number(value) if unit in ("ratio", "count") else f"{number(value)} {unit}"


def spread(side, unit):
    """Write the median, and the range where there is one: ``"5.31 s (5.2 to 5.6)"``."""
    middle = quantity(side["median"], unit)
    if len(side["samples"]) == 1:
        return middle
    # In the median's unit, so that the three can be compared.
    name = middle.partition(" ")[2]
    scale = {"ms": 1e-3, "µs": 1e-6, "MB": 1e6, "kB": 1e3}.get(name, 1)
    return f"{middle} ({number(side['low'] / scale)} to {number(side['high'] / scale)})"


def ratio(row):
    """Write the ratio and whether it reaches its goal."""
    if row["ratio"] is None:
        return ""
    text = f"{number(row['ratio'])}x"
    if row["goal"] is not None:
        verdict = "reached" if row["ratio"] >= row["goal"] else "missed"
        text += f" (goal {number(row['goal'])}x {verdict})"
    return text


def cells(row):
    """Return a row's cells: case, ours, peer, ratio."""
    peer = row["peer"]
    case = row["case"]
    theirs = f"{peer['label']}: {spread(peer, row['unit'])}" if peer else ""
    return case, spread(row["ours"], row["unit"]), theirs, ratio(row)


def table(rows):
    """Lay rows out as text; columns are as wide as they need to be."""
    lines = [("", "median (range)", "against", "better by")]
    notes = []
    for benchmark in dict.fromkeys(row["benchmark"] for row in rows):
        mine = [row for row in rows if row["benchmark"] == benchmark]
        lines += [(benchmark, "", "", "")]
        for row in mine:
            case, *rest = cells(row)
            lines.append((f"  {case}", *rest))
        found = dict.fromkeys(row["note"] for row in mine if row["note"])
        notes += [f"{benchmark}: {note}" for note in found]
    widths = [max(len(line[i]) for line in lines) for i in range(3)]
    text = ["  ".join([*map(str.ljust, line, widths), line[3]]).rstrip() for line in lines]
    return "\n".join([*text, "", *notes])


def slower(new, old):
    """Say what became worse than in an old record, by more than the spread of either.

    Parameters
    ----------
    new, old : dict
        Records from the same hardware.

    Returns
    -------
    list of str
        One line per row that became worse: its median moved to the bad side by more than either
        run's range (largest - smallest), and by more than `TOLERANCE` of the old median.
    """
    before = {row_key(row): row for row in old["rows"]}
    found = []
    for row in new["rows"]:
        past = before.get(row_key(row))
        if past is None:
            continue
        change = row["ours"]["median"] - past["ours"]["median"]
        worse = -change if row["higher_is_better"] else change
        ranges = [side["high"] - side["low"] for side in (row["ours"], past["ours"])]
        if worse > max(*ranges, TOLERANCE * past["ours"]["median"]):
            was, now = (spread(side, row["unit"]) for side in (past["ours"], row["ours"]))
            share = change / past["ours"]["median"]
            found.append(f"{' / '.join(row_key(row))}: was {was}, now {now} ({share:+.0%})")
    return found
