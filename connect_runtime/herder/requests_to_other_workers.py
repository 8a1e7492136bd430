"""Requests to other workers of the group, through their REST APIs.

User requests are forwarded to the worker that can handle them. Two internal requests (task configs
for the leader, zombie fencing) are signed with the session key.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol
from urllib import parse

from connect_runtime.base.errors import FatalError, RetriableError
from connect_runtime.herder import session_keys
from connect_runtime.storage import java_hash_map_json
from connect_runtime.storage.cluster_config_state import RawConfig, SessionKey
from connect_runtime.storage.java_hash_map_json import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerRequest:
    """A request to another worker."""

    url: str
    """URL that the other worker advertises."""
    method: str
    path: str
    """Percent-encoded path."""
    query: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = field(default=None, repr=False)
    """JSON body."""
    authorization: str | None = field(default=None, repr=False)
    """`Authorization` header of the user's request."""
    signature: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Signature headers of an internal request."""
    response_key: SessionKey | None = field(default=None, repr=False)
    """Key with which the response must be signed (`session_keys.sign_response`); None accepts an
    unsigned response."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerResponse:
    """The other worker's response, with a status from 200 to 299."""

    status: int
    value: Json = field(default=None, repr=False)
    """Decoded JSON; None if the response had no body."""


class PeerRefusedError(FatalError):
    """Raised if the other worker responded with an error. The message is from its response."""

    def __init__(self, message: str, *, status: int, error_code: int) -> None:
        super().__init__(message)
        self.status = status
        self.error_code = error_code


class PeerUnavailableError(RetriableError):
    """Raised if the other worker sent no response or an invalid one. It may or may not have
    executed the request."""

    def __init__(self, message: str, *, unsigned_status: int | None = None) -> None:
        super().__init__(message)
        self.unsigned_status = unsigned_status
        """HTTP status of an unsigned response; None otherwise. Any machine on the network path can
        have sent an unsigned response. Use the status only as a hint, for example to decide whether
        to log a failure."""


class PeerClient(Protocol):
    """Sends requests to other workers. Thread-safe. Every call has a time limit, 90 s by default.

    Redirects are not followed. `send` and `send_and_wait` raise `PeerRefusedError` and
    `PeerUnavailableError`.
    """

    async def send(self, call: PeerRequest) -> PeerResponse:
        """Send the request on the caller's event loop."""

    def send_and_wait(self, call: PeerRequest) -> PeerResponse:
        """Send the request from a thread without an event loop."""


def build_connector_path(connector: str, *rest: str) -> str:
    """Build the percent-encoded path `/connectors/NAME/…`."""
    return "/" + "/".join(parse.quote(part, safe="") for part in ("connectors", connector, *rest))


def build_task_configs_request(
    leader_url: str,
    connector: str,
    configs: Sequence[RawConfig],
    *,
    key: SessionKey | None,
    algorithm: str,
) -> PeerRequest:
    """Build the request that sends a connector's task configs to the leader. The response is 204.

    Without a key (in groups that do not use `sessioned`) the request is not signed.
    """
    body = java_hash_map_json.encode_json([dict(config) for config in configs])
    return PeerRequest(
        url=leader_url,
        method="POST",
        path=build_connector_path(connector, "tasks"),
        body=body,
        signature=session_keys.build_signature_headers(key, body, algorithm=algorithm),
    )


def build_fence_request(
    leader_url: str,
    connector: str,
    *,
    key: SessionKey | None,
    algorithm: str,
) -> PeerRequest:
    """Build the request to fence producers of a source connector's earlier tasks. The response is
    204."""
    return PeerRequest(
        url=leader_url,
        method="PUT",
        path=build_connector_path(connector, "fence"),
        signature=session_keys.build_signature_headers(key, b"", algorithm=algorithm),
    )
