"""``simgpu gpus``: GPUs, links and networks that can be simulated, with the numbers' sources.

Without a name all of them in short, GPUs by family; with one, all numbers of that entry, each with
its source.
"""

import json
from dataclasses import asdict

from simgpu.command_line import Parser
from simgpu.hardware import DTYPES, GPUS, LINKS, find_link, gpu_file
from simgpu.hardware.cards import FAMILIES
from simgpu.hardware.default import usual_link
from simgpu.hardware.links import HOW
from simgpu.hardware.specs import OVERHEADS
from simgpu.nearest import unknown
from simgpu.network import NETWORKS
from simgpu.network.boards import board_of
from simgpu.units import number, quantity, size

# What the table of a kind shows: heading; numbers whose sources stand below; columns as (heading,
# name of the number).
_TABLES = {
    "gpus": (
        "GPUs, with peaks in FLOP/s of dense products; those of 16 bits with float32 sums",
        ["flops.float32", "memory_bandwidth"],
        [("memory", "memory"), ("bandwidth", "memory_bandwidth")]
        + [(dtype, f"flops.{dtype}") for dtype in (*DTYPES, "float8", "int8")]
        + [("usual link", "usual_link")],
    ),
    "links": (
        "Links, per GPU and direction: copies from and to pinned and ordinary memory, between GPUs",
        ["bandwidth", "peer_bandwidth"],
        [
            ("pinned", "bandwidth"), ("to GPU", "pageable_bandwidth"),
            ("to host", "pageable_to_host"), ("latency", "latency"), ("peer", "peer_bandwidth"),
            ("peer latency", "peer_latency"), ("direct", "peer"),
        ],
    ),
    "boards": (
        "Boards, which carry out collectives over that link",
        ["rate"],
        [("kind", "kind"), ("rate", "rate"), ("GPUs", "gpus"), ("host", "host_rate")],
    ),
    "networks": (
        "Networks, with the rate of each of a node's cards",
        ["rate"],
        [("cards", "nics"), ("rate", "rate"), ("latency", "latency")],
    ),
}  # fmt: skip
_RATES = (
    "memory_bandwidth", "bandwidth", "pageable_bandwidth", "pageable_to_host", "peer_bandwidth",
    "rate", "host_rate", "pcie_rate",
)  # fmt: skip
_TIMES = (*OVERHEADS, "latency", "peer_latency")
_NAMES = {family: {card.name for card in cards} for family, cards in FAMILIES.items()}
_UNITS = dict.fromkeys(_RATES, "B/s") | dict.fromkeys(_TIMES, "s")


def main(argv=None) -> int:
    """Print what there is, or one entry; return the exit code."""
    parser = Parser(
        prog="simgpu gpus", description="List the hardware that can be simulated, and its sources."
    )
    parser.add_argument("name", nargs="?", help="of a GPU, a link or a network, or a GPU's file")
    parser.add_argument("--json", action="store_true", help="the same as JSON, in SI units")
    args = parser.parse_args(argv)
    try:
        found = catalogue(args.name)
    except ValueError as error:
        parser.error(str(error))
    if args.json:
        print(json.dumps(found, indent=1))
    elif args.name is None:
        print("\n\n".join(_table(kind, entries) for kind, entries in found.items()))
        print("\n`simgpu gpus NAME` shows all numbers of one of them, each with its source.")
        print(f"A link is also {HOW}.")
    else:
        (*shown,) = (entry for entries in found.values() for entry in entries.values())
        print("\n\n".join(_columns(_numbers(entry)) for entry in shown))
    return 0


def catalogue(name=None) -> dict:
    """Return all numbers, in SI units, by kind and name; or those of one name alone.

    Parameters
    ----------
    name : str, optional
        Of a preset, a link with settings, or a GPU's file (`simgpu.hardware.gpu_file`).

    Raises
    ------
    ValueError
        If there is no such preset; the message lists those there are.
    """
    if gpu_file.is_gpu_file(name):
        gpu, link, copies = gpu_file.read(name)
        return {"gpus": {gpu.name: _gpu(gpu, link) | {"copies": copies}}}
    if name and ":" in name:
        link = find_link(name)
        return {"links": {name: asdict(link)}, "boards": {name: asdict(board_of(link))}}
    everything = {
        "gpus": {key: _gpu(gpu) for key, gpu in GPUS.items()},
        "links": {key: asdict(link) for key, link in LINKS.items()},
        "boards": {key: asdict(board_of(link)) for key, link in LINKS.items()},
        "networks": {key: asdict(network) for key, network in NETWORKS.items()},
    }
    if name is None:
        return everything
    found = {kind: {name: entries[name]} for kind, entries in everything.items() if name in entries}
    if not found:
        names = [name for kind in ("gpus", "links", "networks") for name in everything[kind]]
        raise ValueError(unknown("hardware", name, names, ", or a .json file"))
    return found


def _gpu(gpu, link=None):
    more = {"usual_link": link.name if link else usual_link(gpu.name)}
    family = next((family for family, cards in _NAMES.items() if gpu.name in cards), None)
    return asdict(gpu) | more | {"family": family}


def _table(kind, entries):
    """Return the table of a kind, and below it the sources of its main numbers."""
    heading, main, columns = _TABLES[kind]
    rows, sources, before = [("", *(title for title, _ in columns))], [], None
    for key, entry in entries.items():
        text = {name: text for name, text, _ in _numbers(entry)}
        source = {name: source for name, _, source in _numbers(entry)}
        if entry.get("family") != before:
            before = entry["family"]
            rows.append((f"- {before}", *[""] * len(columns)))
        rows.append((key, *(text.get(name, "").removesuffix("FLOP/s") for _, name in columns)))
        sources.append((key, "; ".join(dict.fromkeys(source[name] for name in main))))
    return "\n".join([f"{heading}:", _columns(rows), "sources:", _columns(sources)])


def _numbers(entry, prefix="", sources=None):
    """Yield the name of each number of an entry, its text, and its source."""
    sources = entry.get("sources", sources) or {"all": entry.get("source", "")}
    for key, value in entry.items():
        name = prefix + key
        if key in ("sources", "source"):
            continue
        if isinstance(value, dict):
            yield from _numbers(value, f"{name}.", sources)
        elif value not in (None, ()):
            general = "" if isinstance(value, str) else sources.get("all", "")
            yield name, _write(name, value), sources.get(name, general)


def _write(name, value):
    if name.startswith("flops."):
        return quantity(value, "FLOP/s")
    if name == "memory":
        return size(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return f"{len(value)} {name}"
    if isinstance(value, str):
        return value
    unit = _UNITS.get(name.rpartition(".")[2])
    return quantity(value, unit) if unit else number(value)


def _columns(rows):
    """Align rows of text; one with nothing behind its first cell is a heading."""
    rows = list(rows)
    widths = [max(map(len, column)) for column in zip(*filter(_is_filled, rows), strict=True)]
    lines = ("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)
    return "\n".join(f"  {line}" for line in lines)


def _is_filled(row):
    return any(row[1:])
