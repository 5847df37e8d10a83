"""Calls that a script starts as processes, with the arguments that a new process would get.

As in a process that is spawned, a rank runs the script again, as ``__mp_main__``, and gets its own
copy of the arguments. Queues, locks and plain tensors of the host are shared. A process that is
forked shares everything with the script.
"""

import io
import pickle

import torch

from simgpu.run.failures import StartError


class ProcessCall:
    """A call that a script starts as a process.

    Parameters
    ----------
    function : callable
    args : tuple
    kwargs : dict
    method : str
        "spawn", "fork" or "forkserver".
    what : str
        What started it, for errors.

    Raises
    ------
    StartError
        If a new process cannot get the function or its arguments.
    """

    def __init__(self, function, args, kwargs, method, what):
        self._call, self._pickled, self._shared = (function, args, kwargs), None, []
        if method == "fork":
            return
        buffer = io.BytesIO()
        try:
            _Pickler(buffer, self._shared).dump(self._call)
        except (pickle.PicklingError, TypeError, AttributeError) as error:
            raise StartError(f"{what}: a new process cannot get {function!r}: {error}") from error
        self._pickled = buffer.getvalue()

    def run(self, script):
        """Call it, in the rank that is the process."""
        function, args, kwargs = self._call
        if self._pickled is not None:
            script.execute("__mp_main__")
            function, args, kwargs = _Unpickler(io.BytesIO(self._pickled), self._shared).load()
        function(*args, **kwargs)


class _Pickler(pickle.Pickler):
    """Copies what a new process gets, except for what processes share."""

    def __init__(self, file, shared):
        super().__init__(file)
        self._shared = shared

    def persistent_id(self, thing):
        """Return the number of an object that is shared, else None."""
        is_shared = type(thing) is torch.Tensor and thing.device.type == "cpu"
        if not is_shared and not type(thing).__module__.startswith("multiprocessing."):
            return None
        self._shared.append(thing)
        return len(self._shared) - 1


class _Unpickler(pickle.Unpickler):
    def __init__(self, file, shared):
        super().__init__(file)
        self._shared = shared

    def persistent_load(self, number):
        return self._shared[number]
