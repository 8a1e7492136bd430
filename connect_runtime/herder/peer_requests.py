"""Requests to other workers of the group, over their REST API.

There are two kinds: users' requests that are forwarded to the worker that can serve them, and the
two internal requests (task configs for the leader, zombie fencing), which are signed with the
session key.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol
from urllib import parse

from connect_runtime.base.errors import FatalError, RetriableError
from connect_runtime.herder import session_keys
from connect_runtime.storage import java_json
from connect_runtime.storage.cluster_config_state import RawConfig, SessionKey
from connect_runtime.storage.java_json import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerRequest:
    """One request. `url` is what the worker advertises, `path` is percent-encoded.

    `authorization` is the header of that name as a user sent it, `signature` the headers of an
    internal request; `body` is JSON.
    """

    url: str
    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = field(default=None, repr=False)
    authorization: str | None = field(default=None, repr=False)
    signature: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerResponse:
    """The other worker's answer, of a status from 200 to 299; `value` None where it had no body."""

    status: int
    value: Json = field(default=None, repr=False)


class PeerRefusedError(FatalError):
    """The other worker answered with an error; the message is its own."""

    def __init__(self, message: str, *, status: int, error_code: int) -> None:
        super().__init__(message)
        self.status = status
        self.error_code = error_code


class PeerUnavailableError(RetriableError):
    """No answer, or one that makes no sense: it may or may not have done what it was asked."""


class PeerClient(Protocol):
    """Safe to use from any thread. Every call ends within a deadline, 90 s unless told otherwise.

    Redirections are not followed. Both raise `PeerRefusedError` and `PeerUnavailableError`.
    """

    async def send(self, call: PeerRequest) -> PeerResponse:
        """On the caller's event loop."""

    def send_and_wait(self, call: PeerRequest) -> PeerResponse:
        """For threads that have no event loop."""


def build_connector_path(connector: str, *rest: str) -> str:
    """`/connectors/NAME/…`, whatever characters the name has."""
    return "/" + "/".join(parse.quote(part, safe="") for part in ("connectors", connector, *rest))


def build_task_configs_request(
    leader_url: str,
    connector: str,
    configs: Sequence[RawConfig],
    *,
    key: SessionKey | None,
    algorithm: str,
) -> PeerRequest:
    """Hand the leader a connector's task configs; answered with 204.

    `algorithm` is the signature's; without a key, as in groups before `sessioned`, it goes
    unsigned.
    """
    body = java_json.encode_json([dict(config) for config in configs])
    return PeerRequest(
        url=leader_url,
        method="POST",
        path=build_connector_path(connector, "tasks"),
        body=body,
        signature=session_keys.build_headers(key, body, algorithm=algorithm),
    )


def build_fence_request(
    leader_url: str,
    connector: str,
    *,
    key: SessionKey | None,
    algorithm: str,
) -> PeerRequest:
    """Have producers of a source connector's earlier tasks fenced; answered with 204."""
    return PeerRequest(
        url=leader_url,
        method="PUT",
        path=build_connector_path(connector, "fence"),
        signature=session_keys.build_headers(key, b"", algorithm=algorithm),
    )
