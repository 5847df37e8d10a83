"""Launch one rank's part of a collective or message: where it runs, and from when on it can."""

from simgpu import user_frame
from simgpu.backend.tensor import SimTensor
from simgpu.ranks.process.scheduler import RanksError


def device_of(tensors, rank, own):
    """Return the device of a rank's tensors, which must be its `own`; None: the host.

    Raises
    ------
    RanksError
        If they are on several devices, or on that of another rank.
    """
    devices = {t._device if isinstance(t, SimTensor) else None for t in tensors}
    if len(devices) > 1:
        raise RanksError(
            f"rank {rank} communicates ({user_frame.line()}) tensors on different devices; move "
            "them to one device first"
        )
    device = devices.pop() if devices else None
    if device is not None and device.index != own.index:
        raise RanksError(
            f"rank {rank} communicates ({user_frame.line()}) a tensor on {device.name}; a rank "
            f"communicates tensors on its own device, here {own.name} (NCCL: 'Duplicate GPU "
            "detected'). A script that says cuda calls "
            "torch.cuda.set_device(int(os.environ['LOCAL_RANK'])) first"
        )
    return device


def launch(part, call, machine, in_flight) -> None:
    """Charge the host for the launch; set the stream, and the time from which the rank is ready.

    Parameters
    ----------
    part : Participant
    call : Call
        The call that it is a part of.
    machine : Machine
    in_flight : InFlight
        What it must not conflict with.
    """
    device, batch = part.device, call.batch
    current = device.current_stream()
    part.stream = current if call.stream is None else call.stream(device)
    part.batch = batch if call.what.name == "send" else None
    in_flight.check(part.name, part.given, part.filled, part.stream, part.batch)
    is_first = batch is None or not batch.started  # NCCL launches the others of a batch with it
    gpu = device.gpu
    overhead = gpu.collective_launch_overhead if is_first else gpu.launch_overhead
    issued = machine.issue(part.name.split(" ")[0], part.stream, overhead)
    part.ready = max(issued, current.end)
    if part.batch is not None:
        batch.ready = max(batch.ready, part.ready)
