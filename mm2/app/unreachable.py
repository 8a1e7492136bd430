"""Telling "could not be asked" from "was asked, and refused or failed"."""

from __future__ import annotations

from connect_runtime.base import errors
from connect_runtime.kafka_client import errors as kafka_errors
from connect_runtime.wire.codec import failures
from mm2.app import run_socket

_NO_ANSWER = (
    kafka_errors.UnreachableError,
    failures.RequestTimedOut,
    failures.NodeUnknown,
    run_socket.RunSocketError,
)
_ON_THE_WAY = (failures.Layer.DNS, failures.Layer.NETWORK)


def is_unreachable(error: errors.ConnectError) -> bool:
    """Did neither a broker nor a process answer? A refused login, certificate or listener is an
    answer."""
    if isinstance(error, failures.ConnectionFailed):
        return error.layer in _ON_THE_WAY
    return isinstance(error, _NO_ANSWER)
