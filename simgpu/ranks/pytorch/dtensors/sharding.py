"""How DTensor shards an operation's results: found by one rank, used by all.

DTensor propagates shardings once a process for each operation and its shapes, and ranks are
processes; for an optimizer's step over all parameters this takes longer than the step. Equal ranks
find equal shardings, each in its own mesh. What depends on a rank's place in the mesh, such as the
local shape of an uneven shard, each rank finds by itself.
"""

import functools

import torch

from simgpu.backend.pytorch.replacements import exists, find

_PROPAGATOR = "torch.distributed.tensor._sharding_prop:ShardingPropagator"
PROPAGATE = f"{_PROPAGATOR}.propagate_op_sharding_non_cached"
STRIDED = "torch.distributed.tensor._sharding_prop:_propagate_use_strided_shard_flag"
_STRIDED_SHARD = "torch.distributed.tensor.placement_types:_StridedShard"
_MESH = "torch.distributed.device_mesh:DeviceMesh"
PLACES = tuple(
    f"{_MESH}.{name}"
    for name in ("get_coordinate", "_sym_get_coordinate", "get_local_rank", "get_rank")
)
_HASH = f"{_MESH}._hash_key"  # since 2.12
_SPEC = "torch.distributed.tensor._dtensor_spec:DTensorSpec"
_SCHEMA = "torch.distributed.tensor._op_schema:"
_PLAIN = (
    int, float, bool, complex, str, type(None),
    torch.dtype, torch.layout, torch.device, torch.memory_format,
)  # fmt: skip


def replacements() -> dict:
    """Return the replacements, with nothing found yet; none if PyTorch has other names."""
    if not all(map(exists, (PROPAGATE, _HASH, *PLACES))):
        return {}
    shared = SharedShardings(find(PROPAGATE))
    return {
        PROPAGATE: lambda propagator, schema: shared.propagate(propagator, schema),
        **({STRIDED: _unless_plain(find(STRIDED))} if exists(STRIDED) else {}),
        **{name: shared.record_place(find(name)) for name in PLACES},
    }


def _unless_plain(propagate_flag):
    """Skip what PyTorch does for each tensor of a list: it looks for strided shards in all of them.

    The time of an optimizer's step grew with the square of the number of its parameters.
    """
    last = None, False  # an operation's schema, and whether one of its tensors has such a shard

    def propagate(strategy, schema):
        nonlocal last
        if last[0] is not schema:
            strided = find(_STRIDED_SHARD)
            placements = (p for spec in schema.args_spec for p in spec.placements)
            last = schema, any(isinstance(p, strided) for p in placements)
        if last[1]:
            propagate_flag(strategy, schema)

    return propagate


class SharedShardings:
    """What ranks have found so far in this run."""

    def __init__(self, propagate):
        self._propagate = propagate
        self._found = {}  # what describes an operation -> its sharding, and the meshes it names
        self._depends_on_place = False

    def record_place(self, function):
        """Wrap a method that returns a rank's place in its mesh."""

        @functools.wraps(function)
        def noting(*args, **kwargs):
            self._depends_on_place = True
            return function(*args, **kwargs)

        return noting

    def propagate(self, propagator, schema):
        """Replace PyTorch's method."""
        meshes = []
        try:
            key = schema.op, _describe([schema.args_schema, schema.kwargs_schema], meshes)
            found = self._found.get(key)
        except TypeError:  # not hashable
            return self._propagate(propagator, schema)
        if found is not None:
            return _move(found[0], _Meshes(found[1], meshes))
        self._depends_on_place = False
        result = self._propagate_lists(propagator, schema)
        if not self._depends_on_place and _Meshes(meshes, meshes).have_all_of(result):
            self._found[key] = result, meshes
        return result

    def _propagate_lists(self, propagator, schema):
        """Call PyTorch's method; for lists with one of the elements that are equal.

        PyTorch handles each element of a list by itself, and the parameters of a model have few
        shapes.
        """
        shorter, places = _without_repeats(schema)
        if shorter is not None:
            result = self._propagate(propagator, shorter)
            specs = result.output_spec
            if specs is None and not result.needs_redistribute:
                return result
            is_list = isinstance(specs, list | tuple) and len(specs) == max(places) + 1
            if is_list and not result.needs_redistribute:
                every = type(specs)(_copy(specs[place], _hash=None) for place in places)
                return _copy(result, output_spec=every)
        return self._propagate(propagator, schema)


def _without_repeats(schema):
    """Return a foreach operation on the different elements of its lists, and where each is there.

    None in place of the operation if there are no equal elements.
    """
    args = schema.args_schema
    lists = [arg for arg in args if isinstance(arg, list | tuple)]
    if not schema.op.name().startswith("aten::_foreach_") or len({*map(len, lists)}) != 1:
        return None, []
    meshes, first = [], {}
    elements = [_describe(element, meshes) for element in zip(*lists, strict=True)]
    places = [first.setdefault(element, len(first)) for element in elements]
    if len(first) == len(elements):
        return None, []
    kept = [elements.index(element) for element in first]
    args = tuple(
        type(arg)(arg[i] for i in kept) if isinstance(arg, list | tuple) else arg for arg in args
    )
    return type(schema)(schema.op, args, schema.kwargs_schema, schema.schema_info), places


def _describe(value, meshes):
    """Return what is equal for equal arguments, in whichever mesh; collect the meshes."""
    if isinstance(value, find(_SPEC)):
        if not any(value.mesh is mesh for mesh in meshes):
            meshes.append(value.mesh)
        (number,) = (i for i, mesh in enumerate(meshes) if mesh is value.mesh)
        # As the propagator compares meshes, except for the thread that made them.
        layout = *value.mesh._hash_key()[:-1], value.mesh._coordinate_on_dim is None
        order, flag = value.shard_order, getattr(value, "use_strided_shard_as_shard_order", None)
        return number, layout, value.placements, value.tensor_meta, order, flag
    if isinstance(value, list | tuple):
        return type(value), tuple(_describe(each, meshes) for each in value)
    if isinstance(value, dict):
        return tuple((name, _describe(each, meshes)) for name, each in value.items())
    if not isinstance(value, _PLAIN):
        raise TypeError
    return type(value), value  # 1, 1.0 and True are equal


class _Meshes:
    """The meshes of one rank, and those of another at the same places."""

    def __init__(self, old, new):
        self._new = {id(mesh): other for mesh, other in zip(old, new, strict=True)}

    def of(self, mesh):
        return self._new[id(mesh)]

    def have_all_of(self, result) -> bool:
        """Return whether a result names no other mesh."""
        try:
            _move(result, self)
        except KeyError:
            return False
        return True


def _move(value, meshes):
    """Return a copy of a result in other meshes."""
    if isinstance(value, find(_SPEC)):
        return _copy(value, mesh=meshes.of(value.mesh), _hash=None)
    if isinstance(value, list | tuple):
        return type(value)(_move(each, meshes) for each in value)
    if isinstance(value, dict):
        return {name: _move(each, meshes) for name, each in value.items()}
    if isinstance(value, find(f"{_SCHEMA}OpSchema")):
        args, kwargs = _move(value.args_schema, meshes), _move(value.kwargs_schema, meshes)
        return type(value)(value.op, args, kwargs, value.schema_info)
    if isinstance(value, find(f"{_SCHEMA}OutputSharding")):
        spec, schema = value.output_spec, value.redistribute_schema
        return _copy(
            value, output_spec=_move(spec, meshes), redistribute_schema=_move(schema, meshes)
        )
    return value


def _copy(value, **changed):
    copy = object.__new__(type(value))
    vars(copy).update(vars(value), **changed)
    return copy
