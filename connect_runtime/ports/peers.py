"""Asking other workers of the group, over their REST API.

Two kinds of requests go from worker to worker: those of users, forwarded to who can serve them, and
the two internal ones (task configs to the leader, a wish to fence), signed with the group's key.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol
from urllib import parse

from connect_runtime.base import errors
from connect_runtime.core.herder import session_keys
from connect_runtime.core.state import cluster_config, json_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
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
class Said:
    """The other worker's answer, of a status from 200 to 299; `value` None where it had no body."""

    status: int
    value: json_bytes.Json = field(default=None, repr=False)


class PeerRefused(errors.FatalError):
    """The other worker answered with an error; the message is its own."""

    def __init__(self, message: str, *, status: int, error_code: int) -> None:
        super().__init__(message)
        self.status = status
        self.error_code = error_code


class PeerFailed(errors.RetriableError):
    """No answer, or one that makes no sense: it may or may not have done what it was asked."""


class Peers(Protocol):
    """Safe to use from any thread. Every call ends within a deadline, 90 s unless told otherwise.

    Redirections are not followed. Both raise `PeerRefused` and `PeerFailed`.
    """

    async def send(self, call: Call) -> Said:
        """On the caller's event loop."""

    def send_and_wait(self, call: Call) -> Said:
        """For threads that have no event loop."""


def connector_path(connector: str, *rest: str) -> str:
    """`/connectors/NAME/…`, whatever characters the name has."""
    return "/" + "/".join(parse.quote(part, safe="") for part in ("connectors", connector, *rest))


def task_configs(
    leader_url: str,
    connector: str,
    configs: Sequence[cluster_config.RawConfig],
    *,
    key: cluster_config.SessionKey | None,
    algorithm: str,
) -> Call:
    """Hand the leader a connector's task configs; answered with 204.

    `algorithm` is the signature's; without a key, as in groups before `sessioned`, it goes
    unsigned.
    """
    body = json_bytes.encode([dict(config) for config in configs])
    return Call(
        url=leader_url,
        method="POST",
        path=connector_path(connector, "tasks"),
        body=body,
        signature=session_keys.headers(key, body, algorithm=algorithm),
    )


def fence(
    leader_url: str,
    connector: str,
    *,
    key: cluster_config.SessionKey | None,
    algorithm: str,
) -> Call:
    """Have producers of a source connector's earlier tasks fenced; answered with 204."""
    return Call(
        url=leader_url,
        method="PUT",
        path=connector_path(connector, "fence"),
        signature=session_keys.headers(key, b"", algorithm=algorithm),
    )
