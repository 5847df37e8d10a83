"""The command ``simgpu compare``: is a run reasonable? Start reading in `command`."""
