"""Reasons why a request got no response: one exception type per reason, retriable or fatal.

An error code inside a response is not one of them: the caller reads it from the response. No
message contains a secret.
"""

from __future__ import annotations

import enum

from kio.schema.errors import ErrorCode

from connect_runtime.base.errors import ConnectError, FatalError, RetriableError


def format_error_code(code: int) -> str:
    """Kafka's name of an error code, `NOT_COORDINATOR (16)`; unknown ones by number alone."""
    try:
        return f"{ErrorCode(code).name.upper()} ({code})"
    except ValueError:
        return f"error {code}"


class FailureLayer(enum.Enum):
    """On the way to an answer: what failed. `LISTENER`: what listens there is of another kind than
    `security.protocol` says, or no Kafka."""

    DNS = "DNS"
    NETWORK = "NETWORK"
    LISTENER = "LISTENER"
    TLS = "TLS"
    AUTH = "AUTH"
    PROTOCOL = "PROTOCOL"


class ConnectionFailed(RetriableError):
    """A connection could not be made, or broke; `address` is host:port, `cause` what was seen."""

    def __init__(
        self, address: str, cause: str, *, layer: FailureLayer = FailureLayer.NETWORK
    ) -> None:
        super().__init__(f"connection to {address}: {cause}")
        self.address = address
        self.cause = cause
        self.layer = layer


class RequestTimedOut(RetriableError):
    """The deadline passed. `waiting_for` says at what point: an answer, a connection, a leader."""

    def __init__(self, api: str, *, waiting_for: str, after_s: float) -> None:
        super().__init__(f"{api}: no answer within {after_s:g} s, waiting for {waiting_for}")
        self.api = api
        self.waiting_for = waiting_for


class TruncatedResponse(RetriableError):
    """A response ended too early, went on too long, or does not decode."""

    def __init__(self, api: str, version: int, problem: str) -> None:
        super().__init__(f"{api} response, version {version}: {problem}")
        self.api = api
        self.version = version


class UnknownBroker(RetriableError):
    """The cluster's metadata names no such broker (any more)."""

    def __init__(self, node_id: int) -> None:
        super().__init__(f"the cluster has no broker {node_id} at present")
        self.node_id = node_id


class CallQueueFull(RetriableError):
    """More requests wait for a connection than its queue may hold."""


class AuthenticationFailed(FatalError):
    """TLS or SASL was refused, by either side: trying again changes nothing."""

    def __init__(
        self, address: str, problem: str, *, layer: FailureLayer = FailureLayer.AUTH
    ) -> None:
        super().__init__(f"authentication with {address}: {problem}")
        self.address = address
        self.problem = problem
        self.layer = layer


class CoordinatorLookupRefused(FatalError):
    """The cluster will not name a coordinator, usually for want of rights on the id."""

    def __init__(self, what: str, *, error_code: int) -> None:
        super().__init__(
            f"finding the coordinator of {what}: {format_error_code(error_code)}; "
            "the principal needs DESCRIBE on it"
        )
        self.error_code = error_code


class UnsupportedVersion(FatalError):
    """This program and the broker have no version of an API in common."""

    def __init__(
        self, api: str, *, ours: tuple[int, int], theirs: tuple[int, int] | None, address: str
    ) -> None:
        spoken = "does not offer it" if theirs is None else f"offers {theirs[0]} to {theirs[1]}"
        super().__init__(
            f"{api}: this program needs a version from {ours[0]} to {ours[1]}, {address} {spoken}"
        )
        self.api = api
        self.ours = ours
        self.theirs = theirs


def find_failure_layer(failure: ConnectError) -> FailureLayer:
    """What failed, as far as the failure tells; no answer in time is the network's."""
    match failure:
        case ConnectionFailed() | AuthenticationFailed():
            return failure.layer
        case UnsupportedVersion() | TruncatedResponse():
            return FailureLayer.PROTOCOL
        case _:
            return FailureLayer.NETWORK
