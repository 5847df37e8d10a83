"""A process's place in its job, from the environment variables of the launcher."""

from dataclasses import dataclass

# The variables by which a launcher such as torchrun describes the job to each process.
LAUNCHER_VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")

# Variables of other launchers with the number of processes.
OTHER_SIZES = ("SLURM_STEP_NUM_TASKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE")

REMEDY = "start the script with python -m torch.distributed.run, which sets them all"


@dataclass(frozen=True)
class Place:
    """The place of one process in its job.

    Attributes
    ----------
    rank, world_size : int
        Index of this process, and number of processes.
    local_rank : int
        Index of this process among those on its machine.
    address, port : str and int, or None
        Address of the rendezvous; None for a job of one process.
    has_launchers_store : bool
        Whether the launcher hosts the store for its processes; otherwise rank 0 does.
    """

    rank: int = 0
    world_size: int = 1
    local_rank: int = 0
    address: str | None = None
    port: int | None = None
    has_launchers_store: bool = False


def find_place(environ):
    """Read the launcher's variables; without them, the process is a job of its own.

    Raises
    ------
    ValueError
        If some of the variables are missing, or restarts would hang.
    """
    found = [name for name in LAUNCHER_VARIABLES if name in environ]
    if not {"RANK", "WORLD_SIZE"} & set(found):
        _refuse_other_launchers(environ)
        return Place()
    missing = [name for name in LAUNCHER_VARIABLES if name not in found]
    if missing:
        raise ValueError(
            f"{', '.join(found)} are set, but not {', '.join(missing)}: {REMEDY}, or without any "
            "launcher"
        )
    has_launchers_store = environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    if has_launchers_store and int(environ.get("TORCHELASTIC_MAX_RESTARTS", 0)) > 0:
        raise ValueError(
            "--max-restarts needs TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 in the environment of the "
            "launcher, and --standalone or --rdzv-backend c10d: without them, restarted processes "
            "may wait for dead ones at the old store"
        )
    numbers = [int(environ[name]) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK")]
    address = environ["MASTER_ADDR"], int(environ["MASTER_PORT"])
    return Place(*numbers, *address, has_launchers_store)


def _refuse_other_launchers(environ):
    """Raise ValueError under other launchers, where each process would run a job of its own."""
    for name in OTHER_SIZES:
        if int(environ.get(name) or 1) > 1:
            raise ValueError(
                f"this is one of {environ[name]} processes ({name}), but RANK and WORLD_SIZE are "
                f"not set: {REMEDY}, and let srun or mpirun start that once per machine"
            )
