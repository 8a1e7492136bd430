"""A broker of a later release, as its clients see it: a proxy in front of a real broker adds tagged
fields that no client knows to every level of every response (KIP-482)."""

from __future__ import annotations

import contextlib
import dataclasses
import select
import socket
import struct
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import kio.index

from connect_runtime.protocol import request_framing
from connect_runtime.system.supervised_threads import StoppableThread
from mm2.sandbox import port_reservation
from tests.support import kio_bytes

_TURN_S = 0.1
_STUCK_S = 20.0


@dataclasses.dataclass(slots=True)
class NewerBroker:
    """`tagged` counts the changed responses by API key."""

    port: int
    target: int
    tagged: Counter[int] = dataclasses.field(default_factory=Counter)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def changed(self, frame: bytes, api_key: int, version: int) -> bytes:
        """The response frame with unknown tagged fields; it advertises the proxy's own port."""
        try:
            response_type: Any = kio.index.load_response_schema(api_key, version)
        except kio.index.KioIndexError:  # newer than kio knows
            return frame
        if not response_type.__flexible__:
            return frame
        header = 5 if request_framing.has_tagged_header_fields(api_key, version)[1] else 4
        entity = request_framing.decode_response(
            response_type, memoryview(bytearray(frame[header:]))
        )
        entity = self._readdressed(entity)
        self.tagged[api_key] += 1
        levels = kio_bytes.nested_types(response_type)
        return frame[:header] + kio_bytes.written_with(entity, tagged=levels)

    def _readdressed(self, entity: Any) -> Any:
        changes: dict[str, Any] = {}
        for each in dataclasses.fields(entity):
            value = getattr(entity, each.name)
            if each.name == "port" and value == self.target:
                changes[each.name] = self.port
            elif dataclasses.is_dataclass(value):
                changes[each.name] = self._readdressed(value)
            elif isinstance(value, tuple) and value and dataclasses.is_dataclass(value[0]):
                changes[each.name] = tuple(self._readdressed(inner) for inner in value)
        return dataclasses.replace(entity, **changes) if changes else entity


@contextlib.contextmanager
def in_front_of(address: str) -> Iterator[NewerBroker]:
    reserved = port_reservation.reserve_port()
    broker = NewerBroker(reserved.port, int(address.rpartition(":")[2]))
    links: list[StoppableThread] = []

    def start(name: str, serve: Any) -> StoppableThread:
        return StoppableThread(name, serve, on_unexpected_end=lambda end: None)

    with socket.create_server(("127.0.0.1", reserved.port), backlog=256) as server:
        server.settimeout(_TURN_S)

        def accept(stop: threading.Event) -> None:
            while not stop.is_set():
                with contextlib.suppress(TimeoutError):
                    client, _ = server.accept()
                    links.append(start("newer broker's link", _Link(broker, client).serve))

        accepting = start("newer broker", accept)
        try:
            yield broker
        finally:
            for thread in (accepting, *links):
                thread.stop.set()
            for thread in (accepting, *links):
                assert thread.join(_STUCK_S), "the proxy hangs"
            reserved.release()
    failures = [each.failure for each in (accepting, *links) if each.failure is not None]
    if failures:
        raise failures[0]


class _Link:
    """One client's connection, and that to the broker behind it."""

    def __init__(self, broker: NewerBroker, client: socket.socket) -> None:
        self._broker = broker
        self._client = client
        self._asked: dict[int, tuple[int, int]] = {}
        self._buffers = {True: bytearray(), False: bytearray()}

    def serve(self, stop: threading.Event) -> None:
        with self._client, contextlib.suppress(OSError):
            behind = socket.create_connection(("127.0.0.1", self._broker.target), _STUCK_S)
            with behind:
                self._client.settimeout(_STUCK_S)
                self._forward(behind, stop)

    def _forward(self, behind: socket.socket, stop: threading.Event) -> None:
        while not stop.is_set():
            for end in select.select([self._client, behind], [], [], _TURN_S)[0]:
                from_client = end is self._client
                data = end.recv(1 << 18)
                if not data:
                    return
                for frame in self._frames(data, from_client=from_client):
                    if from_client:
                        api_key, version, number = struct.unpack_from(">hhi", frame)
                        self._asked[number] = (api_key, version)
                        behind.sendall(struct.pack(">i", len(frame)) + frame)
                    else:
                        asked = self._asked.pop(
                            request_framing.read_correlation_id(memoryview(frame))
                        )
                        changed = self._broker.changed(frame, *asked)
                        self._client.sendall(struct.pack(">i", len(changed)) + changed)

    def _frames(self, data: bytes, *, from_client: bool) -> Iterator[bytes]:
        buffer = self._buffers[from_client]
        buffer += data
        while len(buffer) >= 4:
            (size,) = struct.unpack_from(">i", buffer)
            if len(buffer) < 4 + size:
                return
            frame = bytes(buffer[4 : 4 + size])
            del buffer[: 4 + size]
            yield frame
