"""Copies that copy nothing: what Spark tasks run in the tests of the engines.

Entry functions as `engine.CopyJob.entry` names them; imported in the executors' processes too.
"""

from __future__ import annotations

import os
import socket
import sys

import mm2
from connect_runtime.network.tcp_and_tls_transport import Poller
from connect_runtime.system.system_clock import SystemClock
from mm2.copier.control_channel_client import ControlClient
from mm2.copier.control_channel_wire_format import ControlMessage


class Echo:
    """Answers each message with itself, until it is told to stop or its channel ends."""

    def __init__(self, address: str, token: bytes) -> None:
        self.selector = Poller()
        self.over = False
        self.client = ControlClient(
            address,
            token,
            self.selector,
            clock=SystemClock(),
            on_message=self.answer,
            on_closed=self.end,
        )

    def end(self, _reason: str) -> None:
        self.over = True

    def answer(self, message: ControlMessage) -> None:
        match message["type"]:
            case "stop":
                self.over = True
            case "raise":
                raise ValueError(str(message["text"]))
            case _:
                self.client.send(message)

    def run(self) -> None:
        self.client.connect(10.0)
        self.client.send(describe())
        while not self.over:
            self.selector.poll(1.0)
        self.client.flush_send_queue(1.0)
        self.client.close()


def describe() -> dict[str, object]:
    """Where this copy runs, and what its process could reveal."""
    return {
        "type": "running",
        "pid": os.getpid(),
        "parent": os.getppid(),
        "host": socket.gethostname(),
        "python": sys.executable,
        "package": mm2.__path__[0],
        "environment": dict(os.environ),
        "modules": sorted({name.partition(".")[0] for name in sys.modules}),
    }


def echo(address: str, token: bytes, _attempt: int) -> None:
    Echo(address, token).run()


def crash(_address: str, _token: bytes, _attempt: int) -> None:
    raise RuntimeError("the copy has a fault")
