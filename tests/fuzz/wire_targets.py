"""What brokers and token issuers answer: every response that the wire client reads, the handshake,
SCRAM, tokens; and what group members of other workers say."""

from __future__ import annotations

import base64
import dataclasses
import functools
import json
import random
from collections.abc import Callable, Iterator
from typing import Any

import kio.index
from kio.schema.errors import ErrorCode

from connect_runtime.base.backoff import Backoff
from connect_runtime.base.errors import ConnectError
from connect_runtime.base.ids import ConnectorTaskId
from connect_runtime.group import connect_protocol
from connect_runtime.group.connect_protocol import (
    ConnectAssignment,
    ConnectProtocol,
    MalformedBytesError,
    WorkerMetadata,
)
from connect_runtime.group.connectors_and_tasks import ConnectorsAndTasks
from connect_runtime.protocol import (
    acl_requests,
    api_versions,
    connection_handshake,
    consumer_group_requests,
    fetch_requests,
    produce_requests,
    request_framing,
    sasl,
)
from connect_runtime.protocol.api_versions import ApiVersionRange, NodeApiVersions
from connect_runtime.protocol.cluster_metadata import ClusterMetadata
from connect_runtime.protocol.connection_handshake import HandshakeConversation
from connect_runtime.protocol.oauthbearer import OAuthSettings, TokenResponseReader
from connect_runtime.protocol.request_errors import MalformedResponseError
from connect_runtime.protocol.sasl import SaslExchangeRefused
from connect_runtime.protocol.security_settings import SecuritySettings
from tests.fuzz import targets
from tests.support import kio_bytes, read_apis

SEED_BYTES_MAX = 8192
TRUNCATED = (MalformedResponseError,)
CONNECT = (ConnectError,)

# Responses: the first byte says which version


def _bodies(api: str, low: int, high: int) -> Callable[[], Iterator[bytes]]:
    def seeds() -> Iterator[bytes]:
        rng = random.Random(api)
        for version in range(low, high + 1):
            response_type = kio.index.load_response_schema(api_versions.API_KEYS[api], version)
            levels = kio_bytes.nested_types(response_type)
            for full in (True, True, False, False):
                entity = kio_bytes.random_entity(response_type, rng, full=full)
                body = kio_bytes.written(entity)
                if len(body) <= SEED_BYTES_MAX:
                    yield bytes([version - low]) + body
                    yield bytes([version - low]) + kio_bytes.written_with(entity, tagged=levels)

    return seeds


def _versioned(
    low: int, high: int, read: Callable[[int, memoryview], object]
) -> Callable[[bytes], object]:
    def call(data: bytes) -> object:
        version = low + (data[0] if data else 0) % (high - low + 1)
        return read(version, memoryview(bytearray(data[1:])))

    return call


def _entity(api: str) -> Callable[[int, memoryview], Any]:
    key = api_versions.API_KEYS[api]
    return lambda version, body: request_framing.decode_response(
        kio.index.load_response_schema(key, version), body
    )


def _view(version: int, body: memoryview) -> None:
    entity = _entity("metadata")(version, body)
    view = ClusterMetadata(
        random.Random(1), retry=Backoff(initial_s=0.1, max_s=1.0), max_age_s=300.0
    )
    view.set_metadata_topics(["t", "", "é" * 70])
    view.start_refresh()
    view.apply_response(entity, 1.0)


READERS: dict[str, Callable[[Any], object]] = {
    "offset_fetch": consumer_group_requests.decode_committed_offsets,
    "describe_acls": acl_requests.decode_acls,
    "create_acls": acl_requests.decode_creation_errors,
}


def _understood(api: str) -> Callable[[int, memoryview], object]:
    decode, read = _entity(api), READERS.get(api, lambda entity: entity)

    def understand(version: int, body: memoryview) -> object:
        entity = decode(version, body)
        old = api != "offset_fetch" or version < 8
        return read(entity) if old else entity

    return understand


for api_name, (least, most) in read_apis.READ_BY_KIO.items():
    targets.register(
        f"response-{api_name.replace('_', '-')}",
        _versioned(least, most, _understood(api_name)),
        seeds=_bodies(api_name, least, most),
        allowed=TRUNCATED,
    )
targets.register(
    "cluster-view",
    _versioned(7, 13, _view),
    seeds=_bodies("metadata", 7, 13),
    allowed=TRUNCATED,
)
targets.register(
    "offsets-of-groups",
    _versioned(
        8,
        9,
        lambda version, body: consumer_group_requests.build_multi_group_offset_fetch_request(
            ["g", "h", "i"]
        ).decode_response(version, body),
    ),
    seeds=_bodies("offset_fetch", 8, 9),
    allowed=TRUNCATED,
)
targets.register(
    "response-fetch",
    _versioned(
        fetch_requests.FETCH_MIN_VERSION,
        fetch_requests.FETCH_MAX_VERSION,
        functools.partial(fetch_requests.decode_fetch_response, max_partitions=10),
    ),
    seeds=_bodies("fetch", fetch_requests.FETCH_MIN_VERSION, fetch_requests.FETCH_MAX_VERSION),
    allowed=TRUNCATED,
)
targets.register(
    "response-produce",
    _versioned(
        produce_requests.PRODUCE_MIN_VERSION,
        produce_requests.PRODUCE_MAX_VERSION,
        produce_requests.decode_produce_response,
    ),
    seeds=_bodies(
        "produce", produce_requests.PRODUCE_MIN_VERSION, produce_requests.PRODUCE_MAX_VERSION
    ),
    allowed=TRUNCATED,
)


def _response_header(data: bytes) -> None:
    request_framing.strip_response_header(
        memoryview(bytearray(data)), api_versions.FETCH_KEY, fetch_requests.FETCH_MIN_VERSION
    )


targets.register(
    "response-header",
    _response_header,
    seeds=[b"\0\0\0\x07\0body", b"\0\0\0\x07\x01\x05\x02abbody"],
    allowed=TRUNCATED,
)

# The handshake, and who we are

PLAIN = SecuritySettings(protocol="SASL_PLAINTEXT", mechanism="PLAIN", username="u", password="p")
SCRAM = SecuritySettings(
    protocol="SASL_PLAINTEXT", mechanism="SCRAM-SHA-256", username="u", password="p"
)
KNOWN = NodeApiVersions(
    address="h:1", ranges={17: ApiVersionRange(0, 1), 36: ApiVersionRange(0, 2)}
)
NONCE = "rOprNGfwEbeRWgbNEkqO"
SERVER_FIRST = (
    b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
)


def _converse(conversation: HandshakeConversation, answers: list[bytes]) -> None:
    try:
        next(conversation)
        for each in answers:
            conversation.send(memoryview(bytearray(each)))
    except StopIteration:
        pass


def _open(data: bytes) -> None:
    nobody = SecuritySettings(protocol="PLAINTEXT")
    _converse(connection_handshake.perform_handshake(nobody, address="h:1"), [data, data])


def _authenticate(security: SecuritySettings) -> Callable[[bytes], object]:
    """The first byte is the length of the first answer."""

    def call(data: bytes) -> None:
        size = data[0] if data else 0
        answers = [data[1 : 1 + size], data[1 + size :], data[1 + size :], data]
        _converse(
            connection_handshake.authenticate_connection(security, address="h:1", known=KNOWN),
            answers,
        )

    return call


def _openings() -> Iterator[bytes]:
    for version in (0, 3):
        response_type = kio.index.load_response_schema(api_versions.API_VERSIONS_KEY, version)
        entity: Any = kio_bytes.random_entity(response_type, random.Random(version), full=True)
        yield kio_bytes.written(dataclasses.replace(entity, error_code=ErrorCode.none))


def _sasl_answers() -> Iterator[bytes]:
    hello = b"\0\0\0\0\0\1\0\5PLAIN"
    for answer in (SERVER_FIRST, b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=", b""):
        compact = bytes([len(answer) + 1]) + answer
        yield bytes([len(hello)]) + hello + b"\0\0\1" + compact + bytes(8) + b"\0"


def _scram(data: bytes) -> None:
    exchange = sasl.create_sasl_exchange("SCRAM-SHA-256", "user", password="pencil", nonce=NONCE)
    exchange.create_first_message()
    for part in data.split(b"\x1e")[:3]:
        if exchange.respond_to_challenge(part) is None:
            break


targets.register("handshake", _open, seeds=_openings, allowed=CONNECT)
targets.register("sasl-plain", _authenticate(PLAIN), seeds=_sasl_answers, allowed=CONNECT)
targets.register("sasl-scram", _authenticate(SCRAM), seeds=_sasl_answers, allowed=CONNECT)
targets.register(
    "scram",
    _scram,
    seeds=[
        SERVER_FIRST + b"\x1ev=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
        SERVER_FIRST + b"\x1ee=other",
        b"e=unknown-user",
        b"m=x," + SERVER_FIRST,
        b"r=rOprNGfwEbeRWgbNEkqOx,s=AA==,i=99999999999",
        b"r,s,i",
    ],
    allowed=(SaslExchangeRefused,),
    text=True,
)

# Token issuers

SECRET = "sEcReT"
OAUTH = OAuthSettings(endpoint="https://issuer/token", client_id="c", client_secret=SECRET)


class SecretInErrorError(Exception):
    """An issuer made us repeat the secret."""


def _token(data: bytes) -> None:
    try:
        answer = TokenResponseReader(OAUTH)
        for at in range(0, len(data), 1000):
            if answer.feed(data[at : at + 1000], ended=False, wall_ms=1_790_000_000_000):
                return
        answer.feed(b"", ended=True, wall_ms=1_790_000_000_000)
    except ConnectError as error:
        if SECRET in str(error):
            raise SecretInErrorError from error
        raise


def _token_answers() -> Iterator[bytes]:
    head = b"HTTP/1.1 200 OK\r\n"
    said = json.dumps({"access_token": "abc", "expires_in": 300}).encode()
    claims = base64.b64encode(b'{"exp":1900000000}').strip(b"=")
    yield head + b"Content-Length: %d\r\n\r\n" % len(said) + said
    yield head + b"\r\n" + json.dumps({"access_token": f"a.{claims.decode()}.b"}).encode()
    chunks = b"".join(b"1\r\n%c\r\n" % each for each in said)
    yield head + b"Transfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n"
    yield b"HTTP/1.1 100 Continue\r\n\r\n" + head + b"\r\n" + said
    yield b'HTTP/1.1 401 No\r\nContent-Length: 20\r\n\r\n{"error":"sEcReT no"}'
    yield b"HTTP/1.1 302 F\r\nLocation: http://x/\r\n\r\n"


targets.register("token-issuer", _token, seeds=_token_answers, allowed=CONNECT, text=True)

# Connect's group: what other workers say

WORK = ConnectorsAndTasks(connectors=("c", "ü"), tasks=(ConnectorTaskId("c", 0),))
ASSIGNMENT = ConnectAssignment(
    leader="m",
    leader_url="http://h:1/",
    config_offset=5,
    assigned=WORK,
    revoked=WORK,
    delay_ms=5,
)
STATE = WorkerMetadata(url="http://h:1/", config_offset=7, allocation=ASSIGNMENT)
targets.register(
    "group-metadata",
    connect_protocol.decode_metadata,
    seeds=[connect_protocol.encode_metadata(STATE, each) for each in ConnectProtocol],
    allowed=(MalformedBytesError,),
)
targets.register(
    "group-assignment",
    connect_protocol.decode_assignment,
    seeds=[connect_protocol.encode_assignment(ASSIGNMENT, each) for each in ConnectProtocol],
    allowed=(MalformedBytesError,),
)
