"""The result of a recording, with the methods that PyTorch asks of Kineto's."""

from torch.autograd import DeviceType

from simgpu.ranks.pytorch.profiler import trace_file
from simgpu.ranks.pytorch.profiler.activities import (
    ANNOTATION,
    CALL,
    ON_DEVICE,
    OPERATION,
    Activities,
)

_USER_SCOPE = 7  # RecordScope of `record_function`
# What PyTorch asks of every event, of some version from 2.11 to 2.14, and what it gets if nothing
# is known.
_UNKNOWN = {
    "activity_type": "", "concrete_inputs": [], "correlation_id": 0, "cuda_elapsed_us": -1,
    "device_index": -1, "device_resource_id": 0, "dtypes": [], "end_thread_id": 1, "external_id": 0,
    "extra_meta": {}, "flops": 0, "flow_id": 0, "flow_start": False, "flow_type": 0,
    "fwd_thread_id": 0, "is_async": False, "is_hidden_event": False, "is_python_function": False,
    "is_user_annotation": False, "kwinputs": {}, "linked_correlation_id": 0, "metadata_json": "",
    "nbytes": 0, "overload_name": "", "privateuse1_elapsed_us": -1, "python_id": -1,
    "python_module_id": -1, "python_parent_id": -1, "scope": 0, "sequence_nr": -1, "shapes": [],
    "stack": [], "start_thread_id": 1, "structured_input_shapes": [],
    "structured_input_strides": [], "typed_metadata": {},
}  # fmt: skip


class Event:
    """An event of a profile: each field is a method without arguments, as of Kineto's events."""

    def __init__(self, **fields):
        self._fields = fields

    def __getattr__(self, name):
        fields = self.__dict__.get("_fields", {})
        if name not in fields and name not in _UNKNOWN:
            raise AttributeError(name)
        return lambda: fields[name] if name in fields else _UNKNOWN[name]


class Result:
    """What a rank has recorded.

    Parameters
    ----------
    recording : Recording
        One that has been stopped.
    device_type : DeviceType
        PyTorch's type of the simulated GPU.
    """

    def __init__(self, recording, device_type):
        self._recording, self._device_type = recording, device_type
        options, found = recording.options, Activities(recording).found
        wanted = {ANNOTATION: options.cpu, OPERATION: options.cpu}
        self._activities = [a for a in found if wanted.get(a.kind, options.device)]
        self._flops = {a.link: a.span.flops for a in found if a.kind in ON_DEVICE}

    def trace_start_ns(self) -> int:
        """Return when it began."""
        return nanoseconds(self._recording.start)

    def events(self) -> list[Event]:
        """Return all events, except launches by CUDA: the operation around each has its time."""
        shown = [a for a in self._activities if a.kind != CALL or a.link == 0]
        return [*map(self._event, shown), *map(self._memory, self._recording.changes)]

    def save(self, path) -> None:
        """Write the trace, as Kineto does."""
        trace_file.write(path, self._recording, self._activities)

    def experimental_event_tree(self):
        """Refuse: the details of Kineto's tree are unknown."""
        raise NotImplementedError(
            "the event tree of torch.profiler (export_memory_timeline, torch.profiler._pattern_"
            "matcher) does not work on simulated GPUs; use export_chrome_trace, or "
            "torch.cuda.memory._dump_snapshot for memory"
        )

    def _event(self, activity):
        on_device = activity.kind in ON_DEVICE
        span = activity.span
        return Event(
            name=activity.name, activity_type=activity.kind,
            start_ns=nanoseconds(activity.start), end_ns=nanoseconds(activity.end),
            duration_ns=nanoseconds(activity.end) - nanoseconds(activity.start),
            correlation_id=activity.number, linked_correlation_id=activity.link,
            device_type=self._device_type if on_device else DeviceType.CPU,
            device_index=self._recording.rank.local if on_device else -1,
            device_resource_id=trace_file.stream(span.stream) if on_device else 1,
            is_user_annotation=activity.kind == ANNOTATION,
            scope=_USER_SCOPE if activity.kind == ANNOTATION else 0,
            shapes=activity.shapes, stack=activity.stack,
            flops=span.flops if on_device else self._flops.get(activity.number, 0),
        )  # fmt: skip

    def _memory(self, change):
        moment = nanoseconds(change.time) + 1  # so that it is inside one operation, not two
        return Event(
            name="[memory]", start_ns=moment, end_ns=moment, duration_ns=0,
            device_type=self._device_type, device_index=self._recording.rank.local,
            nbytes=change.num_bytes, activity_type="cpu_instant_event",
        )  # fmt: skip


def nanoseconds(seconds) -> int:
    """Return whole nanoseconds."""
    return round(seconds * 1e9)
