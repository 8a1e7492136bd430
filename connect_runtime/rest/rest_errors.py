"""Maps exceptions to HTTP error responses in Connect's format: `{"error_code": …, "message": …}`.

Follows Java's ConnectExceptionMapper.
"""

from __future__ import annotations

import logging
import secrets
from http import HTTPStatus

from starlette import exceptions, requests, responses

from connect_runtime.api.errors import AlreadyExistsError, ConnectError, NotFoundError
from connect_runtime.herder.herder_interface import ConnectRestError
from connect_runtime.herder.herder_requests import HerderQueueFullError
from connect_runtime.herder.requests_to_other_workers import PeerRefusedError, PeerUnavailableError
from connect_runtime.rest import rest_responses

_log = logging.getLogger(__name__)


class RestError(Exception):
    """An HTTP error response. The error code in the body (`code`) is the HTTP status by default."""

    def __init__(self, status: int, message: str, *, code: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = status if code is None else code


def convert_to_rest_error(error: Exception) -> RestError:
    """Map an exception to an error response. Unexpected exceptions are mapped to 500, with an id
    that is also logged."""
    match error:
        case RestError():
            return error
        case ConnectRestError():
            return RestError(error.status, str(error))
        case NotFoundError():
            return RestError(HTTPStatus.NOT_FOUND, str(error))
        case AlreadyExistsError():
            return RestError(HTTPStatus.CONFLICT, str(error))
        case HerderQueueFullError():
            return RestError(HTTPStatus.SERVICE_UNAVAILABLE, f"This worker is overloaded: {error}")
        case PeerRefusedError():
            return RestError(error.status, str(error), code=error.error_code)
        case PeerUnavailableError():
            message = f"IO Error trying to forward REST request: {error}"
            return RestError(HTTPStatus.INTERNAL_SERVER_ERROR, message)
        case requests.ClientDisconnect():
            return RestError(HTTPStatus.BAD_REQUEST, "The client disconnected")
        case exceptions.HTTPException():
            phrase = HTTPStatus(error.status_code).phrase
            return RestError(error.status_code, f"HTTP {error.status_code} {phrase}")
        case ConnectError():
            _log.error("a REST request failed", exc_info=error)
            return RestError(HTTPStatus.INTERNAL_SERVER_ERROR, str(error) or type(error).__name__)
        case _:
            # Its text may come from any library, and contain paths or values not meant for clients.
            number = secrets.token_hex(4)
            _log.error("unexpected error in a REST request, error id %s", number, exc_info=error)
            return RestError(
                HTTPStatus.INTERNAL_SERVER_ERROR,
                f"Internal Server Error: search the worker's log for error id {number}",
            )


def build_error_response(error: RestError) -> responses.Response:
    return rest_responses.build_json_response(
        rest_responses.encode_error(error.code, str(error)), status=error.status
    )


async def handle_framework_error(
    _request: requests.Request, error: Exception
) -> responses.Response:
    """Build the error response for an unknown path or method, keeping headers such as Allow."""
    answer = build_error_response(convert_to_rest_error(error))
    headers = getattr(error, "headers", None) or {}
    answer.headers.update(headers)
    return answer
