"""What ``simgpu run`` adds to lower layers while a script runs: functions that these layers call.

The launcher sets the attributes of `hooks` as scoped replacements, so that they are put back.
"""

from dataclasses import dataclass


@dataclass
class Hooks:
    """The functions; None or an empty set wherever the launcher is not at work.

    Attributes
    ----------
    on_cuda : callable or None
        Called with the number when a script first names ``cuda:1``, and with None whenever it names
        ``cuda``.
    say : callable or None
        Prints what the launcher says, beside the output of the script.
    renumber : callable or None
        Called with a rank and the number by which it names a device that is not its own.
    before_communication : callable or None
        Called with a rank before it communicates tensors on its GPU.
    device_of_generator : callable or None
        Returns the simulated device of a generator, or None.
    accepted : frozenset of str
        Names of PyTorch that ranks refuse elsewhere, and that the launcher has replaced.
    accepts_all_backends : bool
        Whether the names of all backends are mapped to the simulated one.
    """

    on_cuda: object = None
    say: object = None
    renumber: object = None
    before_communication: object = None
    device_of_generator: object = None
    accepted: frozenset = frozenset()
    accepts_all_backends: bool = False


hooks = Hooks()
HOOKS = f"{__name__}:hooks"  # in names of replacements: f"{HOOKS}.renumber"
