"""Stores that a program makes itself: `TCPStore`, `FileStore` and `HashStore`, without C++.

PyTorch's would block the one rank that runs. Those with the same port, or the same file, are one
store; hosts are not told apart. `PrefixStore` needs nothing: it calls the store that it is given.
"""

import datetime
import os

import torch.distributed as dist

from simgpu.clock import current
from simgpu.clock.current import current_machine
from simgpu.ranks.process.store import Contents, RankStore

FIRST_FREE_PORT = 49152


class Server:
    """What listens on a port: contents, the rank that has opened it, and how many have joined."""

    def __init__(self, contents, master=None):
        self.contents, self.master, self.joined = contents, master, 0


class OwnTCPStore(RankStore):
    """A store at a port; the parameters are those of `torch.distributed.TCPStore`."""

    def __init__(self, host_name, port, world_size=None, is_master=False, timeout=None,
                 wait_for_workers=True, multi_tenant=False, master_listen_fd=None,
                 use_libuv=True):  # fmt: skip
        world = current.ranks
        self.host, self.libuvBackend = host_name, use_libuv
        servers = world.stores.servers
        if "MASTER_PORT" in os.environ:  # that of torchrun, at which init_process_group() meets
            servers.setdefault(int(os.environ["MASTER_PORT"]), Server(world.stores.default))
        self.port = port or max([FIRST_FREE_PORT, *(used + 1 for used in servers)])
        if is_master:
            _listen(servers, self.port, world.rank.number, multi_tenant)
        elif not _wait(lambda: port in servers, f"connects to the TCPStore {self._place}", timeout):
            raise dist.DistNetworkError(
                f"The client socket has timed out after {_milliseconds(timeout)}ms while trying to "
                f"connect to ({host_name}, {port})."
            )
        server = servers[self.port]
        super().__init__(server.contents, world.scheduler, timeout)
        server.joined += 1
        if not (is_master and wait_for_workers and world_size):
            return
        what = f"waits for {world_size} ranks to connect to its TCPStore {self._place}"
        if not _wait(lambda: server.joined >= world_size, what, timeout):
            raise dist.DistStoreError(
                f"Timed out after {timeout.total_seconds():g} seconds waiting for clients. "
                f"{server.joined}/{world_size} clients joined."
            )

    @property
    def _place(self):
        return f"at {self.host}:{self.port}"

    def __repr__(self):
        return f"<simulated TCPStore {self._place}>"


def _listen(servers, port, rank, multi_tenant):
    """Open a port for a rank, unless it is that of torchrun, or shared."""
    server = servers.get(port)
    if server is not None and server.master not in (None, rank) and not multi_tenant:
        raise dist.DistNetworkError(
            f"The server socket has failed to listen on port {port}: address already in use by "
            f"rank {server.master}; make one rank the master, with is_master=(rank == 0)"
        )
    if server is None or (server.master == rank and not multi_tenant):
        server = servers[port] = Server(Contents())
    server.master = rank


def _wait(is_ready, what, timeout):
    """Run other ranks until ``is_ready()``; return whether it is within `timeout`."""
    machine, deadline = current_machine(), None
    if timeout is not None:
        deadline = machine.host + timeout.total_seconds()
    if current.ranks.scheduler.wait(is_ready, lambda: what, deadline=deadline):
        return True
    machine.wait_until(deadline, "wait for the store")
    return False


def _milliseconds(timeout):
    return round(timeout / datetime.timedelta(milliseconds=1))


def _own_tcp_store(cls, *args, **kwargs):
    return _kept(OwnTCPStore(*args, **kwargs))


def _own_file_store(cls, file_name, world_size=-1):
    contents = current.ranks.stores.files.setdefault(os.path.abspath(file_name), Contents())
    store = _kept(RankStore(contents, current.ranks.scheduler))
    store.path = file_name
    return store


def _own_hash_store(cls):
    return _kept(RankStore(Contents(), current.ranks.scheduler))


def _kept(store):
    """Return a store that lives until the ranks end: a `PrefixStore` keeps only its C++ part."""
    current.ranks.stores.made.append(store)
    return store


def replacements() -> dict:
    """Return the replacements by which a call of these classes makes a store of ours."""
    makers = {
        "TCPStore": _own_tcp_store,
        "FileStore": _own_file_store,
        "HashStore": _own_hash_store,
    }
    return {f"torch._C._distributed_c10d:{name}.__new__": make for name, make in makers.items()}
