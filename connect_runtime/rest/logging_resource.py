"""Endpoints under `/admin/loggers`: log levels of this worker or of all workers (KIP-495, KIP-976).

Follows Java's LoggingResource.
"""

from __future__ import annotations

import logging
from http import HTTPStatus

from starlette import responses

from connect_runtime.herder.herder_interface import Herder
from connect_runtime.rest import rest_responses
from connect_runtime.rest.endpoint_routing import Endpoint
from connect_runtime.rest.http_request import RestRequest
from connect_runtime.rest.request_forwarding import HerderClient
from connect_runtime.rest.rest_errors import RestError
from connect_runtime.system import log_levels
from connect_runtime.system.log_levels import LogLevels

_WORKER_SCOPE, _CLUSTER_SCOPE = "worker", "cluster"

_log = logging.getLogger(__name__)


class LoggingResource:
    """Handlers of the `/admin/loggers` endpoints, which return and set log levels."""

    def __init__(self, herder: Herder, *, client: HerderClient, levels: LogLevels) -> None:
        self._herder = herder
        self._asks = client
        self._levels = levels

    def list_endpoints(self) -> list[Endpoint]:
        one = "/admin/loggers/{logger}"
        return [
            Endpoint("GET", "/admin/loggers", self.list_loggers),
            Endpoint("GET", one, self.get_logger),
            Endpoint("PUT", one, self.set_level),
        ]

    async def list_loggers(self, _request: RestRequest) -> responses.Response:
        found = self._levels.list_levels()
        return rest_responses.build_json_response(
            {name: rest_responses.encode_logger_level(each) for name, each in found.items()}
        )

    async def get_logger(self, request: RestRequest) -> responses.Response:
        name = request.get_path_parameter("logger")
        found = self._levels.get_level(name)
        if found is None:
            raise RestError(HTTPStatus.NOT_FOUND, f"Logger {name} not found.")
        return rest_responses.build_json_response(rest_responses.encode_logger_level(found))

    async def set_level(self, request: RestRequest) -> responses.Response:
        namespace, level = (
            request.get_path_parameter("logger"),
            (await request.parse_config()).get("level"),
        )
        if level is None:
            raise RestError(
                HTTPStatus.BAD_REQUEST, "Desired 'level' parameter was not specified in request."
            )
        if level.upper() not in log_levels.LEVELS:
            raise RestError(HTTPStatus.NOT_FOUND, f"invalid log level '{level}'.")
        problem = log_levels.explain_invalid_namespace(namespace)
        if problem is not None:
            raise RestError(HTTPStatus.BAD_REQUEST, problem)
        scope = request.get_query_value("scope") or _WORKER_SCOPE
        if scope.lower() == _CLUSTER_SCOPE:
            await self._asks.wait_for_reply(
                self._herder.set_cluster_logger_level(namespace, level.upper())
            )
            return rest_responses.build_empty_response(HTTPStatus.NO_CONTENT)
        if scope.lower() != _WORKER_SCOPE:
            _log.warning("unknown scope '%s': changing %s on this worker only", scope, namespace)
        return rest_responses.build_json_response(list(self._levels.set_level(namespace, level)))
