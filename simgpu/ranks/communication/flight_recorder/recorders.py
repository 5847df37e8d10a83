"""The flight recorders of all ranks, and the files that they write after a hang."""

import os
import pickle

from simgpu import user_frame
from simgpu.ranks.communication.flight_recorder import settings
from simgpu.ranks.communication.flight_recorder.recorder import Recorder


class Recorders:
    """The flight recorders of the ranks of one `spawn`.

    Parameters
    ----------
    world : World
    """

    def __init__(self, world):
        self._world, self._of = world, {}  # number of a rank -> its recorder

    def of_rank(self) -> Recorder:
        """Return the recorder of the rank that runs, which begins as its environment asks."""
        number = self._world.rank.number
        if number not in self._of:
            self._of[number] = Recorder(settings.read())
        return self._of[number]

    def note(self, call, part) -> list:
        """Record a call of the rank that runs; return its entries, none if it does not record.

        Parameters
        ----------
        call : Call
        part : Participant
            The rank's part in it.
        """
        recorder = self.of_rank()
        if not recorder.settings.size or part.device is None:  # gloo carries tensors of the host
            return []
        return recorder.note(call, part, self._world.machine.host, user_frame.stack())

    @property
    def is_on(self) -> bool:
        """Whether any rank writes a file after a hang."""
        return not self._world.checks and any(map(_writes, self._of.values()))

    def write(self) -> list[str]:
        """Write the files of all ranks that ask for it; return a line that says where they are."""
        if not self.is_on:
            return []
        ranks, queues = self._world.scheduler.by_number, self._world.communication.queues
        paths = []
        for number, recorder in sorted(self._of.items()):
            if _writes(recorder) and not ranks[number].killed:
                path = f"{recorder.settings.prefix}{number}"
                try:
                    _write(path, recorder.dump(queues, stacks=recorder.settings.stacks))
                except OSError as error:
                    return [f"flight recorder: cannot write {path}: {error.strerror}"]
                paths.append((path, recorder.settings.prefix))
        folder, name = os.path.split(paths[-1][1])
        return [
            f"flight recorder: {len(paths)} files, up to {paths[-1][0]}; to compare them: "
            f"torchfrtrace --prefix {name} {folder or '.'}"
        ]


def _writes(recorder):
    return recorder.settings.writes


def _write(path, dump):
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path, "wb") as file:
        pickle.dump(dump, file, protocol=2)
