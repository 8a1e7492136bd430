"""Logger levels, of this worker or of all: KIP-495, KIP-976. Follows Java's LoggingResource."""

from __future__ import annotations

import logging
from http import HTTPStatus

from starlette import responses

from connect_runtime.ports import herder
from connect_runtime.rest import asking, errors, exchange, routing, shapes
from connect_runtime.system import log_levels

_WORKER, _CLUSTER = "worker", "cluster"

_log = logging.getLogger(__name__)


class Loggers:
    """The endpoints."""

    def __init__(
        self, of: herder.Herder, *, asks: asking.Asking, levels: log_levels.LogLevels
    ) -> None:
        self._herder = of
        self._asks = asks
        self._levels = levels

    def endpoints(self) -> list[routing.Endpoint]:
        one = "/admin/loggers/{logger}"
        return [
            routing.Endpoint("GET", "/admin/loggers", self.list_all),
            routing.Endpoint("GET", one, self.level),
            routing.Endpoint("PUT", one, self.set_level),
        ]

    async def list_all(self, _asked: exchange.Exchange) -> responses.Response:
        found = self._levels.all()
        return shapes.json({name: shapes.logger_level(each) for name, each in found.items()})

    async def level(self, asked: exchange.Exchange) -> responses.Response:
        name = asked.name("logger")
        found = self._levels.level(name)
        if found is None:
            raise errors.RestError(HTTPStatus.NOT_FOUND, f"Logger {name} not found.")
        return shapes.json(shapes.logger_level(found))

    async def set_level(self, asked: exchange.Exchange) -> responses.Response:
        namespace, level = asked.name("logger"), (await asked.config()).get("level")
        if level is None:
            raise errors.RestError(
                HTTPStatus.BAD_REQUEST, "Desired 'level' parameter was not specified in request."
            )
        if level.upper() not in log_levels.LEVELS:
            raise errors.RestError(HTTPStatus.NOT_FOUND, f"invalid log level '{level}'.")
        scope = asked.query("scope") or _WORKER
        if scope.lower() == _CLUSTER:
            await self._asks.result(self._herder.set_cluster_logger_level(namespace, level.upper()))
            return shapes.empty(HTTPStatus.NO_CONTENT)
        if scope.lower() != _WORKER:
            _log.warning("the scope '%s' is unknown: %s changes on this worker", scope, namespace)
        return shapes.json(list(self._levels.set(namespace, level)))
