"""The floor: the same bytes through a process that only receives and sends them.

A sender hands a workload's log files to the kernel (as a broker does), the relay does `recv_into`
and `sendall`, a sink throws them away; three processes over loopback. Only the relay is measured.

    python -m tests.bench.relay sink                 prints its port, ends with the stream
    python -m tests.bench.relay relay SINK_PORT      prints its port, then one line of JSON
    python -m tests.bench.relay send PORT FILE…
"""

from __future__ import annotations

import json
import os
import socket
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from connect_runtime.system.system_clock import SystemClock
from tests.bench import process_tree
from tests.bench.process_tree import ProcessTree
from tests.bench.script import Script

_BUFFER_BYTES = 1024 * 1024
_HOST = "127.0.0.1"
_RUN_S = 120.0
_CLOCK = SystemClock()


@dataclass(frozen=True, slots=True, kw_only=True)
class Relayed:
    """`cpu_s` is the relay's alone, `took_s` from the first byte to the end of the stream."""

    size: int
    took_s: float
    cpu_s: float
    memory_bytes: int


def measure(data: Path, topic: str, *, partitions: int) -> Relayed:
    """Relay the log of a topic in a broker's data folder; `RuntimeError` when a process fails."""
    files = [
        str(segment)
        for number in range(partitions)
        for segment in sorted((data / f"{topic}-{number}").glob("*.log"))
    ]
    with tempfile.TemporaryDirectory(prefix="mm2-bench-") as name:
        folder = Path(name)
        sink = Script("relay", "sink", folder=folder)
        relay = Script("relay", "relay", sink.first_line(), folder=folder)
        sender = Script("relay", "send", relay.first_line(), *files, folder=folder)
        for each in (sender, sink):
            each.finish(_RUN_S)
        answer = json.loads(relay.finish(_RUN_S).splitlines()[-1])
    return Relayed(**answer)


# What runs in the three processes


def _accept() -> socket.socket:
    with socket.create_server((_HOST, 0)) as server:
        _say(str(server.getsockname()[1]))
        connection, _ = server.accept()
    return connection


def _sink() -> None:
    buffer = bytearray(_BUFFER_BYTES)
    with _accept() as connection:
        while connection.recv_into(buffer):
            pass


def _relay(sink_port: int) -> None:
    buffer = memoryview(bytearray(_BUFFER_BYTES))
    tree = ProcessTree(os.getpid())
    size = 0
    with socket.create_connection((_HOST, sink_port)) as onward, _accept() as connection:
        received = connection.recv_into(buffer)
        before_s, cpu_s = _CLOCK.now_s(), process_tree.own_cpu_s()
        while received:
            onward.sendall(buffer[:received])
            size += received
            received = connection.recv_into(buffer)
        took_s, cpu_s = _CLOCK.now_s() - before_s, process_tree.own_cpu_s() - cpu_s
        memory = tree.pss_bytes()
    relayed = {"size": size, "took_s": took_s, "cpu_s": cpu_s, "memory_bytes": memory}
    _say(json.dumps(relayed))


def _send(port: int, files: Sequence[str]) -> None:
    with socket.create_connection((_HOST, port)) as connection:
        for name in files:
            with open(name, "rb") as stream:
                connection.sendfile(stream)


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main(arguments: list[str]) -> None:
    role, *rest = arguments
    if role == "sink":
        _sink()
    elif role == "relay":
        _relay(int(rest[0]))
    else:
        _send(int(rest[0]), rest[1:])


if __name__ == "__main__":
    main(sys.argv[1:])
