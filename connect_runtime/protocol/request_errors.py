"""Errors of requests that got no valid response: one exception type per cause, retriable or fatal.

Error codes within a response are not included, because the caller reads them from the response.
Messages never contain secrets.
"""

from __future__ import annotations

import enum

from kio.schema.errors import ErrorCode

from connect_runtime.base.errors import ConnectError, FatalError, RetriableError


def format_error_code(code: int) -> str:
    """Format an error code with Kafka's name, such as `NOT_COORDINATOR (16)`; an unknown code as
    `error N`."""
    try:
        return f"{ErrorCode(code).name.upper()} ({code})"
    except ValueError:
        return f"error {code}"


class RequestFailureLayer(enum.Enum):
    """The layer at which a request failed. `LISTENER` means that the listener does not match
    `security.protocol` or is not a Kafka listener."""

    DNS = "DNS"
    NETWORK = "NETWORK"
    LISTENER = "LISTENER"
    TLS = "TLS"
    AUTH = "AUTH"
    PROTOCOL = "PROTOCOL"


class ConnectionFailed(RetriableError):
    """Raised if a connection could not be established or was lost. `address` is host:port."""

    def __init__(
        self, address: str, cause: str, *, layer: RequestFailureLayer = RequestFailureLayer.NETWORK
    ) -> None:
        super().__init__(f"connection to {address}: {cause}")
        self.address = address
        self.cause = cause
        self.layer = layer


class RequestTimedOut(RetriableError):
    """Raised if a request's deadline expired. `waiting_for` states whether the request was still
    waiting for a connection, a leader or the response."""

    def __init__(self, api: str, *, waiting_for: str, after_s: float) -> None:
        super().__init__(f"{api}: no response within {after_s:g} s, waiting for {waiting_for}")
        self.api = api
        self.waiting_for = waiting_for


class MalformedResponseError(RetriableError):
    """Raised for a malformed response: too short, too long, undecodable, or with invalid values."""

    def __init__(self, api: str, version: int, problem: str) -> None:
        super().__init__(f"{api} response, version {version}: {problem}")
        self.api = api
        self.version = version


class UnknownBroker(RetriableError):
    """The cluster metadata does not contain a broker with this id, or no longer contains it."""

    def __init__(self, node_id: int) -> None:
        super().__init__(f"broker {node_id} is currently not in the cluster metadata")
        self.node_id = node_id


class CallQueueFull(RetriableError):
    """Raised if too many requests are waiting for a connection."""


class AuthenticationFailed(FatalError):
    """The client or the broker rejected TLS or SASL authentication. A retry cannot succeed."""

    def __init__(
        self, address: str, problem: str, *, layer: RequestFailureLayer = RequestFailureLayer.AUTH
    ) -> None:
        super().__init__(f"authentication with {address}: {problem}")
        self.address = address
        self.problem = problem
        self.layer = layer


class CoordinatorLookupRefused(FatalError):
    """The cluster refuses to return a coordinator, usually because the client lacks DESCRIBE
    permission."""

    def __init__(self, what: str, *, error_code: int) -> None:
        super().__init__(
            f"finding the coordinator of {what} failed: {format_error_code(error_code)}; the "
            "principal needs DESCRIBE permission on it"
        )
        self.error_code = error_code


class UnsupportedVersion(FatalError):
    """This client and the broker have no supported version of an API in common."""

    def __init__(
        self,
        api: str,
        *,
        client_versions: tuple[int, int],
        broker_versions: tuple[int, int] | None,
        address: str,
    ) -> None:
        supported = (
            "does not support it"
            if broker_versions is None
            else f"supports {broker_versions[0]} to {broker_versions[1]}"
        )
        super().__init__(
            f"{api}: this client needs a version from {client_versions[0]} to "
            f"{client_versions[1]}, {address} {supported}"
        )
        self.api = api
        self.client_versions = client_versions
        self.broker_versions = broker_versions


REQUEST_FAILURES = (
    ConnectionFailed,
    RequestTimedOut,
    MalformedResponseError,
    UnknownBroker,
    CallQueueFull,
    AuthenticationFailed,
    UnsupportedVersion,
)
"""Errors of requests that got no valid response from a broker."""


def find_request_failure_layer(failure: ConnectError) -> RequestFailureLayer:
    """Return the layer at which a request failed. Timeouts and unknown causes count as NETWORK."""
    match failure:
        case ConnectionFailed() | AuthenticationFailed():
            return failure.layer
        case UnsupportedVersion() | MalformedResponseError():
            return RequestFailureLayer.PROTOCOL
        case _:
            return RequestFailureLayer.NETWORK
