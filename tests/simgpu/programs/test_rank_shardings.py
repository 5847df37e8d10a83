"""DTensor propagates a sharding once for all ranks that are equal."""

import pytest
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard, _sharding_prop, distribute_tensor
from torch.distributed.tensor._sharding_prop import ShardingPropagator
from torch.distributed.tensor.placement_types import _StridedShard

import simgpu as sim
from simgpu.ranks.pytorch.dtensors import sharding


@pytest.fixture
def propagated(monkeypatch):
    """Every operation whose sharding PyTorch has propagated."""
    found = []
    propagate = ShardingPropagator.propagate_op_sharding_non_cached

    def count(self, schema):
        found.append(str(schema.op))
        return propagate(self, schema)

    monkeypatch.setattr(ShardingPropagator, "propagate_op_sharding_non_cached", count)
    return found


def make(rows, k=4):
    """Return a tensor that is sharded by rows over the ranks."""
    dist.init_process_group()
    mesh = init_device_mesh("sim", (k,))
    rank = dist.get_rank()
    return distribute_tensor(torch.ones(rows, 2, device=f"sim:{rank}"), mesh, [Shard(0)])


def test_ranks_propagate_once_and_keep_their_meshes(propagated):
    def program(rank):
        x = make(8)
        y = torch._foreach_add([x, x], [x, x])[1]
        assert y.device_mesh is x.device_mesh
        return y.full_tensor().sum().item()

    assert sim.spawn(program, nprocs=4) == [32.0] * 4
    assert propagated.count("aten._foreach_add.List") == 1
    sim.spawn(program, nprocs=4)
    assert propagated.count("aten._foreach_add.List") == 2, "the next run starts with none"


def test_other_operands_and_other_placements_are_found_by_themselves(propagated):
    def program(rank):
        x = make(8)
        operand = (1, 1.0, True, x)[rank]
        y = x + operand
        return str(y.dtype), y.to_local().sum().item()

    assert sim.spawn(program, nprocs=4) == [("torch.float32", 8.0)] * 4
    assert len([name for name in propagated if name.startswith("aten.add")]) == 4


def test_what_depends_on_the_place_in_the_mesh_is_not_shared(propagated):
    """Of 5 rows, ranks have 2, 2, 1 and none."""

    def program(rank):
        x = make(5)
        return tuple(x.new_zeros(x.shape).to_local().shape), (x + x).to_local().sum().item()

    rows = [2, 2, 1, 0]
    assert sim.spawn(program, nprocs=4) == [((n, 2), 4.0 * n) for n in rows]


def test_equal_elements_of_lists_are_propagated_once(monkeypatch):
    """Their results come in the list's order, in the mesh and the shapes of each."""
    lengths, propagate = [], ShardingPropagator.propagate_op_sharding_non_cached

    def note(self, schema):
        if "foreach" in str(schema.op):
            lengths.append(len(schema.args_schema[0]))
        return propagate(self, schema)

    monkeypatch.setattr(ShardingPropagator, "propagate_op_sharding_non_cached", note)

    def program(rank):
        one = make(8)
        other = one.sum(dim=1, keepdim=True)
        values = [one, other, one + 1, one + 2, other + 3]
        found = torch._foreach_add(values, [2 * x for x in values])
        torch._foreach_mul_(values, 2.0)
        assert all(x.device_mesh is one.device_mesh for x in found)
        return [(*x.shape, *x.to_local().shape, x.full_tensor()[0, 0].item()) for x in found]

    columns, sums = [2, 1, 2, 2, 1], [3, 6, 6, 9, 15]
    wanted = [(8, n, 2, n, x) for n, x in zip(columns, sums, strict=True)]
    assert sim.spawn(program, nprocs=4) == [wanted] * 4
    assert lengths == [2, 2]


def test_only_strided_shards_are_looked_for_in_each_tensor_of_a_list(monkeypatch):
    """PyTorch looks in the whole list once for each tensor: the square of its length."""
    lengths = []
    monkeypatch.setattr(
        _sharding_prop, "_propagate_use_strided_shard_flag",
        lambda strategy, schema: lengths.append(len(schema.args_spec)),
    )  # fmt: skip

    def program(rank):
        plain = make(8)
        lists = [[plain.expand(8, 2).repeat(1, n) for n in range(1, length)] for length in (6, 3)]
        strided = DTensor.from_local(
            torch.ones(2, 2, device=f"sim:{rank}"),
            plain.device_mesh,
            [_StridedShard(0, split_factor=2)],
        )
        torch._foreach_mul(lists[0], 2.0)
        torch._foreach_mul([*lists[1], strided], 2.0)
        torch._foreach_mul(lists[1], 2.0)

    sim.spawn(program, nprocs=4)
    assert lengths == [3] * 3


def test_another_version_of_pytorch_propagates_by_itself(monkeypatch):
    monkeypatch.setattr(sharding, "exists", lambda name: False)
    assert sharding.replacements() == {}
