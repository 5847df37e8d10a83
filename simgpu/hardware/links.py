"""The links that can be simulated: presets, and what one may say of a machine's own.

A link is a preset's name or a rate, and what differs, separated by colons:

===========================  ===========================================================
``pcie4``, ``nvlink4``       a preset (`LINKS`)
``25GB/s``                   what large copies reach, in each direction, to the host and between
                             GPUs
``pcie4:x8``                 8 lanes of PCIe in place of 16; also ``x1``, ``x2``, ``x4``
``pcie5:p2p``                GPUs copy to each other past the host's memory, which so limits nothing
``pcie5:staged``             the driver stages copies between GPUs in the host's memory
``pcie5:2xgenoa``            the memory of two sockets of a generation (`CPU_GENERATIONS`)
``pcie5:16xddr5-4800``       the memory's channels, all sockets together, and their MT/s
===========================  ===========================================================

The memory of the host limits what all GPUs together send through it: each byte is written once and
read once (`simgpu.hardware.assumptions.HOST_RATE` if none is named).
"""

import re
from dataclasses import replace

from simgpu.hardware.assumptions import (
    COPY_LATENCY,
    LINK_EFFICIENCY,
    MEMORY_EFFICIENCY,
    PAGEABLE_TO_DEVICE,
    PAGEABLE_TO_HOST,
)
from simgpu.hardware.link import Link
from simgpu.nearest import unknown
from simgpu.rates_and_sizes import rate

ASSUMED = "assumed, the same for every preset (simgpu/hardware/assumptions.py)"
_PCIE = {
    3: (
        15.754e9,
        "PCI-SIG, PCI Express Base Specification 3.0, 2010: 16 lanes x 8 GT/s",
    ),
    4: (31.508e9, "PCI-SIG, PCI Express Base Specification 4.0, 2017: 16 lanes x 16 GT/s"),
    5: (63.015e9, "PCI-SIG, PCI Express Base Specification 5.0, 2019: 16 lanes x 32 GT/s"),
}
_NVLINK = {
    2: (150e9, 3, "NVIDIA, Tesla V100 whitepaper, 2017: all 6 links x 25 GB/s per direction"),
    3: (300e9, 4, "NVIDIA, A100 data sheet, 2021: 600 GB/s, both directions together"),
    4: (450e9, 5, "NVIDIA, H100 data sheet, 2023: 900 GB/s, both directions together"),
    5: (900e9, 5, "NVIDIA, HGX B200 data sheet, 2024: 1.8 TB/s, both directions together"),
}
# Pairs of cards with bridges, by what data sheets print: both directions together, GB/s.
_BRIDGES = {
    "pcie4_bridge112": (4, 56.25e9, "NVIDIA, A40 data sheet, 2021: 112.5 GB/s, both directions"),
    "pcie4_bridge600": (4, 300e9, "NVIDIA, A100 data sheet, 2021: 600 GB/s, both directions"),
    "pcie5_bridge600": (5, 300e9, "NVIDIA, H100 data sheet, 2023: 600 GB/s, both directions"),
}
_H800 = "H800 data sheet, as retold by philisun.com: 400 GB/s, both directions together"
_C2C = "NVIDIA, GH200 data sheet, 2023: NVLink-C2C, 900 GB/s, both directions together"

_STAGED = (
    "the driver offers no peer access and stages copies in chunks (STAGING_CHUNK, fitted to "
    "NVIDIA/nccl issue 814 and NVIDIA/nccl-tests issue 287); two that go in opposite directions "
    "at once, which do not disturb each other here, reached 1.1 to 1.4 times the rate of one there"
)


def _link(name, pcie, peer_peak=None, peer_source=None, peer=True):
    """Build a preset: PCIe of generation `pcie` to the host; NVLink between peers, if given."""
    host_peak, host_source = _PCIE[pcie]
    host = LINK_EFFICIENCY * host_peak
    peer_bandwidth = LINK_EFFICIENCY * peer_peak if peer_peak else host
    share = f"x LINK_EFFICIENCY {LINK_EFFICIENCY} (assumed)"
    sources = {
        "bandwidth": f"{host_source} {share}",
        "pageable_bandwidth": ASSUMED,
        "pageable_to_host": ASSUMED,
        "latency": ASSUMED,
        "peer": "direct copies between peers" if peer else _STAGED,
        "peer_bandwidth": f"{peer_source or host_source} {share}" if peer else "unused: staged",
        "peer_latency": ASSUMED if peer else "unused: staged",
        "host_rate": ASSUMED,
    }
    return Link(
        name=name,
        bandwidth=host,
        pageable_bandwidth=PAGEABLE_TO_DEVICE,
        pageable_to_host=PAGEABLE_TO_HOST,
        latency=COPY_LATENCY,
        peer=peer,
        peer_bandwidth=peer_bandwidth,
        peer_latency=COPY_LATENCY,
        sources=sources,
    )


def _grace():
    """Build the link of a GH200, which reaches its own CPU's memory by NVLink-C2C."""
    link = _link("nvlink4_c2c", _NVLINK[4][1], _NVLINK[4][0], _NVLINK[4][2])
    source = f"{_C2C} x LINK_EFFICIENCY {LINK_EFFICIENCY} (assumed)"
    return replace(
        link, bandwidth=LINK_EFFICIENCY * 450e9, sources={**link.sources, "bandwidth": source}
    )


LINKS = {
    spec.name: spec
    for spec in (
        *(_link(f"pcie{generation}", generation) for generation in _PCIE),
        # GeForce boards without peer access, such as the RTX 4090.
        _link("pcie4_staged", 4, peer=False),
        *(_link(name, *numbers) for name, numbers in _BRIDGES.items()),
        *(
            _link(f"nvlink{generation}", pcie, peak, source)
            for generation, (peak, pcie, source) in _NVLINK.items()
        ),
        _link("nvlink4_400", 5, 200e9, _H800),
        _grace(),
    )
}

# Generations of CPUs: channels of memory of a socket, and the MT/s of the fastest with one module a
# channel.
CPU_GENERATIONS = {
    "rome": (8, 3200, "AMD, EPYC 7002 data sheet: 8 channels DDR4-3200"),
    "milan": (8, 3200, "AMD, EPYC 7003 data sheet: 8 channels DDR4-3200"),
    "genoa": (12, 4800, "AMD, EPYC 9004 data sheet: 12 channels DDR5-4800"),
    "ice-lake": (8, 3200, "Intel, Xeon Scalable of the 3rd generation: 8 channels DDR4-3200"),
    "sapphire-rapids": (8, 4800, "Intel, Xeon Scalable of the 4th generation: 8 of DDR5-4800"),
    "emerald-rapids": (8, 5600, "Intel, Xeon Scalable of the 5th generation: 8 of DDR5-5600"),
}
_CHANNEL_BYTES = 8  # a transfer
_MOST_GPUS = 8  # of a board
HOW = (
    "a rate such as 25GB/s, or either with settings: pcie4:x8, pcie5:p2p, pcie5:staged, "
    f"pcie5:2xgenoa (sockets, of {', '.join(CPU_GENERATIONS)}), pcie5:16xddr5-4800 (channels)"
)


def find_link(name_or_spec) -> Link:
    """Return the link of that name; a `Link` is returned as it is.

    Parameters
    ----------
    name_or_spec : str or Link
        As this module's first lines say: a preset's name or a rate, and settings.

    Raises
    ------
    ValueError
        If it is no link; the message lists the presets.

    Examples
    --------
    Two sockets with eight channels of 38.4 GB/s each:

    >>> link = find_link("pcie5:staged:2xsapphire-rapids")
    >>> link.peer, round(link.host_rate / 1e9)
    (False, 246)
    >>> find_link("25GB/s").bandwidth, find_link("pcie4:x8").bandwidth
    (25000000000.0, 12603200000.0)
    """
    if isinstance(name_or_spec, Link):
        return name_or_spec
    base, *settings = str(name_or_spec).split(":")
    memory = [text for text in settings if re.match(r"\d", text)]
    if memory and "p2p" in settings:
        raise ValueError(
            f"link {name_or_spec!r}: with p2p copies pass by the host's memory; leave {memory[0]} "
            "out"
        )
    link = LINKS.get(base) if isinstance(name_or_spec, str) else None
    link = link or _of_rate(name_or_spec, base)
    for setting in settings:
        link = _set(link, setting, name_or_spec)
    return replace(link, name=name_or_spec) if settings else link


def base_of(link) -> str:
    """Return the name of the preset that a link is, whatever its settings.

    Examples
    --------
    >>> base_of(find_link("nvlink4:x8"))
    'nvlink4'
    """
    return link.name.partition(":")[0]


def _of_rate(name, base):
    """Return a link whose large copies reach a rate."""
    try:
        given = rate(base)
    except ValueError:
        others = f", {HOW}, or a simgpu.Link of your own"
        raise ValueError(unknown("Link", name, LINKS, others)) from None
    link = LINKS["pcie4"]
    sources = link.sources | dict.fromkeys(("bandwidth", "peer_bandwidth"), "given")
    return replace(link, name=base, bandwidth=given, peer_bandwidth=given, sources=sources)


def _set(link, setting, name):
    """Return a link with one setting changed."""
    if re.fullmatch(r"x(1|2|4|8|16)", setting):
        return _with_lanes(link, int(setting[1:]), name)
    if setting in ("p2p", "staged"):
        return _with_peers(link, setting == "p2p", name)
    host_rate, source = _memory(setting, name)
    return replace(link, host_rate=host_rate, sources={**link.sources, "host_rate": source})


def _with_lanes(link, lanes, name):
    if link.name not in LINKS:
        raise ValueError(f"link {name!r}: x{lanes} needs a preset; give the rate of its lanes")
    share, source = lanes / 16, f"{link.sources['bandwidth']}; {lanes} lanes"
    sources = {**link.sources, "bandwidth": source}
    peers = link.peer_bandwidth
    if _is_pcie(link):
        peers, sources["peer_bandwidth"] = share * peers, source
    return replace(link, bandwidth=share * link.bandwidth, peer_bandwidth=peers, sources=sources)


def _with_peers(link, direct, name):
    """Return a link whose GPUs copy to each other directly, or staged in the host's memory."""
    if not _is_pcie(link):
        raise ValueError(f"link {name!r}: p2p and staged are for PCIe; leave them out")
    if not direct:
        return replace(link, peer=False, sources={**link.sources, "peer": _STAGED})
    sources = {
        **link.sources,
        "peer": "given: p2p",
        "peer_bandwidth": link.sources["bandwidth"],
        "peer_latency": ASSUMED,
        "host_rate": "given: p2p, all copies pass by the host's memory",
    }
    return replace(link, peer=True, host_rate=_MOST_GPUS * link.bandwidth, sources=sources)


def _is_pcie(link):
    return link.peer_bandwidth == link.bandwidth


def _memory(setting, name):
    """Return the bytes/s that copies reach through the host's memory, and their source."""
    found = re.fullmatch(r"(\d+)x(?:ddr[45]-(\d+)|([a-z-]+))", setting)
    if not found or not int(found[1]) or (found[3] and found[3] not in CPU_GENERATIONS):
        raise ValueError(f"link {name!r}: {setting!r} is no setting; give {HOW}")
    channels, speed, source = int(found[1]), found[2], "given"
    if found[3]:
        each, speed, source = CPU_GENERATIONS[found[3]]
        channels *= each
    rate_of_all = channels * int(speed) * 1e6 * _CHANNEL_BYTES
    share = f"x {MEMORY_EFFICIENCY} (assumed); each byte is written once and read once"
    return rate_of_all * MEMORY_EFFICIENCY / 2, f"{source}, {channels} in all, {share}"
