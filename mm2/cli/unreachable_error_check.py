"""Distinguishes errors of an unreachable cluster or process from other failures.

`main` imports this module only after an error, because it loads the Kafka protocol codec.
"""

from __future__ import annotations

from connect_runtime.base.errors import ConnectError
from connect_runtime.kafka.client_errors import UnreachableError
from connect_runtime.protocol.request_errors import (
    ConnectionFailed,
    RequestFailureLayer,
    RequestTimedOut,
    UnknownBroker,
)
from mm2.status.process_socket import ProcessSocketError

_NO_ANSWER_ERRORS = (
    UnreachableError,
    RequestTimedOut,
    UnknownBroker,
    ProcessSocketError,
)
_UNREACHED_LAYERS = (RequestFailureLayer.DNS, RequestFailureLayer.NETWORK)


def is_unreachable_error(error: ConnectError) -> bool:
    """Return True if the error means that no broker or process responded.

    A broker has responded even if it rejects the login, the certificate or the security protocol.
    """
    if isinstance(error, ConnectionFailed):
        return error.layer in _UNREACHED_LAYERS
    return isinstance(error, _NO_ANSWER_ERRORS)
