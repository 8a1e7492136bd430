"""Who this worker is, and whether it is well (KIP-1017). Follows Java's RootResource."""

from __future__ import annotations

from http import HTTPStatus

from starlette import responses

from connect_runtime.core.herder import requests
from connect_runtime.ports import herder
from connect_runtime.rest import asking, errors, exchange, routing, settings, shapes

_HEALTHY = "Worker has completed startup and is ready to handle requests."
_STARTING = "Worker is still starting up."
_UNHEALTHY = "Worker was unable to handle this request and may be unable to handle other requests."


class Root:
    """The endpoints; they hold no state."""

    def __init__(
        self, of: herder.Herder, *, identity: settings.Identity, deadlines: asking.Deadlines
    ) -> None:
        self._herder = of
        self._identity = identity
        self._deadlines = deadlines

    def endpoints(self) -> list[routing.Endpoint]:
        return [
            routing.Endpoint("GET", "/", self.info),
            routing.Endpoint("GET", "/health", self.health),
        ]

    async def info(self, _asked: exchange.Exchange) -> responses.Response:
        return shapes.json(
            {
                "version": self._identity.version,
                "commit": self._identity.commit,
                "kafka_cluster_id": self._herder.kafka_cluster_id(),
            }
        )

    async def health(self, _asked: exchange.Exchange) -> responses.Response:
        """Healthy is a herder that comes round in time."""
        future = self._herder.submit(requests.CheckHealth())
        try:
            reply = await asking.answer(future, timeout_s=self._deadlines.health_s)
        except asking.NotInTime:
            stage = self._herder.stage()
            doing = "" if stage is None else f" {stage}"
            if self._herder.ready():
                return _health(HTTPStatus.INTERNAL_SERVER_ERROR, "unhealthy", _UNHEALTHY + doing)
            return _health(HTTPStatus.SERVICE_UNAVAILABLE, "starting", _STARTING + doing)
        if isinstance(reply, requests.Refused):
            raise errors.RestError(reply.status, reply.message)
        return _health(HTTPStatus.OK, "healthy", _HEALTHY)


def _health(status: int, word: str, message: str) -> responses.Response:
    return shapes.json({"status": word, "message": message}, status=status)
