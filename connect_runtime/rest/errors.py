"""What goes wrong, as HTTP answers in Connect's shape: `{"error_code": …, "message": …}`.

Follows Java's ConnectExceptionMapper.
"""

from __future__ import annotations

import logging
import secrets
from http import HTTPStatus

from starlette import exceptions, requests, responses

from connect_runtime.api import errors as api_errors
from connect_runtime.core.herder import requests as herder_requests
from connect_runtime.ports import herder, peers
from connect_runtime.rest import shapes

_log = logging.getLogger(__name__)


class RestError(Exception):
    """The answer to the request is this error. `code` is the HTTP status where it is not given."""

    def __init__(self, status: int, message: str, *, code: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = status if code is None else code


def of(error: Exception) -> RestError:
    """Which answer an error comes to. What nobody foresaw is 500 with an id, under which it is
    logged."""
    match error:
        case RestError():
            return error
        case herder.Refusal():
            return RestError(error.status, str(error))
        case api_errors.NotFoundError():
            return RestError(HTTPStatus.NOT_FOUND, str(error))
        case api_errors.AlreadyExistsError():
            return RestError(HTTPStatus.CONFLICT, str(error))
        case herder_requests.QueueFull():
            return RestError(HTTPStatus.SERVICE_UNAVAILABLE, f"This worker is busy: {error}")
        case peers.PeerRefused():
            return RestError(error.status, str(error), code=error.error_code)
        case peers.PeerFailed():
            message = f"IO Error trying to forward REST request: {error}"
            return RestError(HTTPStatus.INTERNAL_SERVER_ERROR, message)
        case requests.ClientDisconnect():
            return RestError(HTTPStatus.BAD_REQUEST, "The client went away")
        case exceptions.HTTPException():
            phrase = HTTPStatus(error.status_code).phrase
            return RestError(error.status_code, f"HTTP {error.status_code} {phrase}")
        case api_errors.ConnectError():
            _log.error("a REST request met an error", exc_info=error)
            return RestError(HTTPStatus.INTERNAL_SERVER_ERROR, str(error) or type(error).__name__)
        case _:
            # Its text may be of any library, with paths and values that are not for clients.
            number = secrets.token_hex(4)
            _log.error("unexpected error in a REST request, error id %s", number, exc_info=error)
            return RestError(
                HTTPStatus.INTERNAL_SERVER_ERROR,
                f"Internal Server Error: search the worker's log for error id {number}",
            )


def respond(error: RestError) -> responses.Response:
    return shapes.json(shapes.error(error.code, str(error)), status=error.status)


async def on_framework_error(_request: requests.Request, error: Exception) -> responses.Response:
    """Paths and methods that nothing here serves; keeps headers such as Allow."""
    answer = respond(of(error))
    headers = getattr(error, "headers", None) or {}
    answer.headers.update(headers)
    return answer
