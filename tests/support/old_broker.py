"""A broker that speaks only versions from before 2.0: it tells which, and answers nothing else."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Iterator

from connect_runtime.protocol import api_versions
from connect_runtime.system.supervised_threads import StoppableThread
from mm2.sandbox import port_reservation

_SPOKEN = {"produce": (0, 3), "fetch": (0, 4), "list_offsets": (0, 1), "metadata": (0, 4)}
_TURN_S = 0.1
_ANSWER_S = 5.0


@contextlib.contextmanager
def serving() -> Iterator[str]:
    """Its address."""
    reserved = port_reservation.reserve_port()
    with socket.create_server(("127.0.0.1", reserved.port)) as server:
        server.settimeout(_TURN_S)

        def serve(stop: threading.Event) -> None:
            while not stop.is_set():
                with contextlib.suppress(TimeoutError, OSError):
                    link, _ = server.accept()
                    with link:
                        link.settimeout(_ANSWER_S)
                        _answer(link)
                        stop.wait(_TURN_S)

        thread = StoppableThread("old broker", serve, on_unexpected_end=lambda end: None)
        try:
            yield f"127.0.0.1:{reserved.port}"
        finally:
            thread.stop.set()
            thread.join(_ANSWER_S + 1.0)
            reserved.release()


def _answer(link: socket.socket) -> None:
    """Versions, until the client leaves."""
    while True:
        head = link.recv(4, socket.MSG_WAITALL)
        if len(head) < 4:
            return
        body = link.recv(struct.unpack(">i", head)[0], socket.MSG_WAITALL)
        key, _, correlation = struct.unpack_from(">hhi", body)
        if key != api_versions.API_VERSIONS_KEY:
            return
        spoken = {api_versions.API_VERSIONS_KEY: (0, 3)}
        spoken |= {api_versions.API_KEYS[name]: each for name, each in _SPOKEN.items()}
        told = b"".join(struct.pack(">hhhB", each, *pair, 0) for each, pair in spoken.items())
        answer = struct.pack(">ihB", correlation, 0, len(spoken) + 1) + told
        answer += struct.pack(">iB", 0, 0)
        link.sendall(struct.pack(">i", len(answer)) + answer)
