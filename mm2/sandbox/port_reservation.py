"""Reserves TCP ports on this machine for servers, also before the servers start and while they are
down.

Ports are below 32768, outside Linux' ephemeral port range. A reservation is a locked file in a
directory shared by all processes of the user. The reservation is released when the process that
made the reservation ends. It remains valid while the server that uses the port is down.
"""

from __future__ import annotations

import fcntl
import os
import random
import socket
from collections.abc import Iterator
from dataclasses import dataclass

from mm2.sandbox import temporary_directories
from mm2.sandbox.sandbox_errors import SandboxError

FIRST_RESERVED_PORT = 10_000
LAST_RESERVED_PORT = 32_767


@dataclass(slots=True)
class PortReservation:
    """A port that no other sandbox uses until `release` is called or this process ends."""

    port: int
    _lock_fd: int | None

    def release(self) -> None:
        if self._lock_fd is not None:
            os.close(self._lock_fd)
            self._lock_fd = None


def reserve_port(
    *, preferred: int | None = None, rng: random.Random | None = None
) -> PortReservation:
    """Reserve the preferred port if it is free, otherwise any free port."""
    for port in _list_candidate_ports(preferred, rng or random.SystemRandom()):
        reservation = _try_reserve_port(port)
        if reservation is not None:
            return reservation
    raise SandboxError(
        f"no free port between {FIRST_RESERVED_PORT} and {LAST_RESERVED_PORT} on 127.0.0.1: stop "
        "sandboxes or other servers that use ports in this range"
    )


def _list_candidate_ports(preferred: int | None, rng: random.Random) -> Iterator[int]:
    if preferred is not None:
        yield preferred
    start = rng.randrange(FIRST_RESERVED_PORT, LAST_RESERVED_PORT + 1)
    yield from range(start, LAST_RESERVED_PORT + 1)
    yield from range(FIRST_RESERVED_PORT, start)


def _try_reserve_port(port: int) -> PortReservation | None:
    lock_fd = os.open(
        temporary_directories.make_private_folder("mm2-ports") / str(port),
        os.O_CREAT | os.O_RDWR | os.O_CLOEXEC,
        0o600,
    )
    try:
        fcntl.flock(lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as Java does
            probe.bind(("127.0.0.1", port))
    except OSError:
        os.close(lock_fd)
        return None
    return PortReservation(port, lock_fd)
