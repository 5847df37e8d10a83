"""The command ``simgpu gpus``: all presets with their sources, as text and as JSON."""

import json

import pytest

from simgpu.hardware import GPUS, LINKS
from simgpu.hardware.cards import FAMILIES
from simgpu.list_gpus import main
from simgpu.network import NETWORKS


def test_every_preset_and_its_source_are_listed(capsys):
    assert main([]) == 0
    out = capsys.readouterr().out
    sources = {name: gpu.sources["flops.float32"] for name, gpu in GPUS.items()}
    sources |= {name: link.sources["bandwidth"] for name, link in LINKS.items()}
    sources |= {name: network.source for name, network in NETWORKS.items()}
    for name, source in sources.items():
        assert any(line.split()[:1] == [name] and source in line for line in out.splitlines()), name
    assert "989 T     989 T    1.98 P  1.98 P  nvlink4" in out


def test_gpus_stand_in_families(capsys):
    main([])
    lines = [line.strip() for line in capsys.readouterr().out.split("sources:")[0].splitlines()]
    for family, cards in FAMILIES.items():
        first = lines.index(f"- {family}") + 1
        shown = [line.split()[0] for line in lines[first : first + len(cards)]]
        assert shown == [card.name for card in cards]


def test_json_has_the_same_numbers(capsys):
    main(["--json"])
    found = json.loads(capsys.readouterr().out)
    assert found.keys() == {"gpus", "links", "boards", "networks"}
    assert found["gpus"]["h100"]["flops"] == GPUS["h100"].flops
    assert found["networks"]["ndr"]["rate"] == NETWORKS["ndr"].rate
    main(["h100", "--json"])
    assert json.loads(capsys.readouterr().out) == {"gpus": {"h100": found["gpus"]["h100"]}}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("h100", "3.35 TB/s            NVIDIA, H100"),
        ("nvlink2", "rate        20 GB/s          NVIDIA/nccl, src/graph/topo.h"),
        ("efa", "latency           20 µs    Amazon EC2"),
        ("rtx5090", "tensor cores with float32 sums, half of the rate with float16 sums"),
        ("pcie5:staged:2xgenoa", "AMD, EPYC 9004 data sheet: 12 channels DDR5-4800, 24 in all"),
    ],
)
def test_one_entry_has_a_source_beside_each_number(name, text, capsys):
    main([name])
    assert text in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "known"), [("h10", "'h100'"), ("x", "h100, h800"), ("no.json", "No such file")]
)
def test_an_unknown_name_is_refused(name, known, capsys):
    with pytest.raises(SystemExit):
        main([name])
    assert known in capsys.readouterr().err
