"""A stand-in broker for what real ones do rarely: it answers what a test tells it to.

It lives in the poller of the test, so nothing here waits. Unless told otherwise it answers
ApiVersions and Metadata as a one-node cluster would; every other request needs a script.
"""

from __future__ import annotations

import datetime
import socket
import struct
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import kio.index
from kio.schema.errors import ErrorCode
from kio.schema.index import schema_name_map
from kio.serial import entity_reader
from kio.static.constants import EntityType

from connect_runtime.network import tcp_and_tls_transport
from connect_runtime.network.tcp_and_tls_transport import Poller
from connect_runtime.protocol import api_versions, request_framing, varints

NO_TIME = datetime.timedelta(0)


@dataclass(eq=False, kw_only=True)
class Asked:
    """One request as it arrived; answer it with `answer`, or not at all."""

    link: Link
    api: str
    version: int
    correlation_id: int
    body: bytes

    @property
    def entity(self) -> Any:
        """The request as kio reads it."""
        key = api_versions.API_KEYS[self.api]
        return entity_reader(kio.index.load_request_schema(key, self.version))(self.body, 0)[0]

    def response(self, **fields: Any) -> Any:
        """A kio response entity of the same version."""
        if "error_code" in fields:
            fields["error_code"] = ErrorCode(fields["error_code"])
        return self.module.__dict__[self._response_type.__name__](**fields)

    @property
    def module(self) -> Any:
        key = api_versions.API_KEYS[self.api]
        return kio.index.load_payload_module(key, self.version, EntityType.response)

    @property
    def _response_type(self) -> type[Any]:
        return kio.index.load_response_schema(api_versions.API_KEYS[self.api], self.version)

    def frame(self, answer: Any) -> bytes:
        """Size, header and body; `answer` is a kio entity or the body's bytes."""
        body: bytes = (
            answer if isinstance(answer, bytes) else request_framing.encode_request_body(answer)
        )
        tags = (
            b"\0"
            if request_framing.has_tagged_header_fields(
                api_versions.API_KEYS[self.api], self.version
            )[1]
            else b""
        )
        frame = struct.pack(">i", self.correlation_id) + tags + body
        return struct.pack(">i", len(frame)) + frame

    def answer(self, answer: Any) -> None:
        self.link.write(self.frame(answer))


class Link:
    """One accepted connection."""

    def __init__(self, broker: ScriptedBroker, sock: socket.socket) -> None:
        self.socket = sock
        self.open = True
        self._broker = broker
        self._received = bytearray()
        self._unsent = bytearray()
        broker.loop.register(sock, tcp_and_tls_transport.READABLE, handler=self._on_event)

    def write(self, data: bytes) -> None:
        self._unsent += data
        self._send()

    def close(self) -> None:
        if self.open:
            self.open = False
            self._broker.loop.unregister(self.socket)
            self.socket.close()

    def _send(self) -> None:
        if not self.open:
            return
        while self._unsent:
            try:
                del self._unsent[: self.socket.send(self._unsent)]
            except BlockingIOError:
                break
        interest = (
            tcp_and_tls_transport.READABLE | tcp_and_tls_transport.WRITABLE
            if self._unsent
            else tcp_and_tls_transport.READABLE
        )
        self._broker.loop.modify(self.socket, interest)

    def _on_event(self, mask: int) -> None:
        if mask & tcp_and_tls_transport.WRITABLE:
            self._send()
        if not mask & tcp_and_tls_transport.READABLE:
            return
        try:
            data = self.socket.recv(1 << 20)
        except ConnectionResetError:
            data = b""
        if not data:
            self.close()
            return
        self._received += data
        self._broker.bytes_received += len(data)
        while self.open and len(self._received) >= 4 and not self._broker.deaf:
            (size,) = struct.unpack_from(">i", self._received)
            if len(self._received) < 4 + size:
                break
            frame = bytes(self._received[4 : 4 + size])
            del self._received[: 4 + size]
            self._broker.handle(self, frame)


class ScriptedBroker:
    """Listens on a port of its own. `scripts` by API name; `asked` collects every request.

    twist_metadata: changes the bytes of metadata responses. deaf: requests stay unread. refuses:
    connections are closed as soon as they are made.
    """

    def __init__(self, loop: Poller, *, node_id: int = 1) -> None:
        self.loop = loop
        self.node_id = node_id
        self.scripts: dict[str, Callable[[Asked], None]] = {
            "api_versions": self.tell_versions,
            "metadata": self.tell_metadata,
        }
        self.asked: list[Asked] = []
        self.links: list[Link] = []
        self.ranges: dict[str, tuple[int, int]] = {}
        self.topics: dict[str, tuple[int, ...]] = {}
        self.topic_codes: dict[str, int] = {}
        self.topic_ids: dict[str, uuid.UUID] = {}
        self.twist_metadata: Callable[[bytes], bytes] = bytes
        self.bytes_received = 0
        self.deaf = self.refuses = False
        self.others: list[ScriptedBroker] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.setblocking(False)
        self.port = int(self._listener.getsockname()[1])
        loop.register(self._listener, tcp_and_tls_transport.READABLE, handler=self._accept)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def requests(self, api: str) -> list[Asked]:
        return [asked for asked in self.asked if asked.api == api]

    def drop_links(self) -> None:
        for link in self.links:
            link.close()

    def close(self) -> None:
        self.drop_links()
        if self._listener.fileno() >= 0:
            self.loop.unregister(self._listener)
            self._listener.close()

    def handle(self, link: Link, frame: bytes) -> None:
        key, version, correlation_id, client = struct.unpack_from(">hhih", frame)
        position = 10 + max(0, client)
        if request_framing.has_tagged_header_fields(key, version)[0]:
            _, position = varints.read_tagged_fields(frame, position)
        asked = Asked(
            link=link,
            api=api_versions.API_NAMES[key],
            version=version,
            correlation_id=correlation_id,
            body=frame[position:],
        )
        self.asked.append(asked)
        script = self.scripts.get(asked.api)
        assert script is not None, f"no script for {asked.api}"
        script(asked)

    def tell_versions(self, asked: Asked) -> None:
        """Everything that kio knows, but for what `ranges` says."""
        offered = {
            name: (min(schema_name_map[name]), max(schema_name_map[name]))
            for name in api_versions.API_KEYS
        }
        keys = tuple(
            asked.module.ApiVersion(
                api_key=api_versions.API_KEYS[name], min_version=low, max_version=high
            )
            for name, (low, high) in {**offered, **self.ranges}.items()
        )
        pause = {"throttle_time": NO_TIME} if asked.version else {}
        asked.answer(asked.response(error_code=0, api_keys=keys, **pause))

    def tell_metadata(self, asked: Asked) -> None:
        """Itself and `others`; `topics` gives the leaders of each topic's partitions."""
        m = asked.module
        brokers = tuple(
            m.MetadataResponseBroker(node_id=b.node_id, host="127.0.0.1", port=b.port)
            for b in (self, *self.others)
        )
        wanted = asked.entity.topics
        names = self.topics if wanted is None else [str(each.name) for each in wanted]
        topics = tuple(self._topic(m, name) for name in names)
        entity = asked.response(
            throttle_time=NO_TIME,
            brokers=brokers,
            cluster_id="scripted",
            controller_id=self.node_id,
            topics=topics,
            error_code=0,
        )
        asked.answer(self.twist_metadata(bytes(request_framing.encode_request_body(entity))))

    def _topic(self, m: Any, name: str) -> Any:
        leaders = self.topics.get(name)
        return m.MetadataResponseTopic(
            error_code=ErrorCode(self.topic_codes.get(name, 3 if leaders is None else 0)),
            name=name,
            topic_id=self.topic_ids.get(name),
            partitions=tuple(
                m.MetadataResponsePartition(
                    error_code=ErrorCode.none,
                    partition_index=index,
                    leader_id=leader,
                    leader_epoch=1,
                )
                for index, leader in enumerate(() if name in self.topic_codes else leaders or ())
            ),
        )

    def _accept(self, mask: int) -> None:
        sock, _ = self._listener.accept()
        if self.refuses:
            sock.close()
            return
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.links.append(Link(self, sock))
