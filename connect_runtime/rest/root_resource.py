"""Endpoints `/` (version, commit, Kafka cluster id) and `/health` (KIP-1017).

Follows Java's RootResource.
"""

from __future__ import annotations

from http import HTTPStatus

from starlette import responses

from connect_runtime.herder.herder_interface import Herder
from connect_runtime.herder.herder_requests import CheckHealth, RequestRefused
from connect_runtime.rest import request_forwarding, rest_responses
from connect_runtime.rest.endpoint_routing import Endpoint
from connect_runtime.rest.http_request import RestRequest
from connect_runtime.rest.request_forwarding import RequestTimeout, RestDeadlines
from connect_runtime.rest.rest_errors import RestError
from connect_runtime.rest.rest_settings import WorkerIdentity

_HEALTHY_MESSAGE = "Worker has completed startup and is ready to handle requests."
_STARTING_MESSAGE = "Worker is still starting up."
_UNHEALTHY_MESSAGE = (
    "Worker was unable to handle this request and may be unable to handle other requests."
)


class RootResource:
    """Handlers of the `/` and `/health` endpoints; stateless."""

    def __init__(
        self, herder: Herder, *, identity: WorkerIdentity, deadlines: RestDeadlines
    ) -> None:
        self._herder = herder
        self._identity = identity
        self._deadlines = deadlines

    def list_endpoints(self) -> list[Endpoint]:
        return [
            Endpoint("GET", "/", self.get_server_info),
            Endpoint("GET", "/health", self.check_health),
        ]

    async def get_server_info(self, _request: RestRequest) -> responses.Response:
        return rest_responses.build_json_response(
            {
                "version": self._identity.version,
                "commit": self._identity.commit,
                "kafka_cluster_id": self._herder.kafka_cluster_id(),
            }
        )

    async def check_health(self, _request: RestRequest) -> responses.Response:
        """Respond with the worker's health. The worker is healthy if the herder replies in time."""
        future = self._herder.submit_request(CheckHealth())
        try:
            reply = await request_forwarding.wait_for_result(
                future, timeout_s=self._deadlines.health_s
            )
        except RequestTimeout:
            stage = self._herder.get_current_stage()
            doing = "" if stage is None else f" {stage}"
            if self._herder.is_ready():
                return _build_health_response(
                    HTTPStatus.INTERNAL_SERVER_ERROR, "unhealthy", _UNHEALTHY_MESSAGE + doing
                )
            return _build_health_response(
                HTTPStatus.SERVICE_UNAVAILABLE, "starting", _STARTING_MESSAGE + doing
            )
        if isinstance(reply, RequestRefused):
            raise RestError(reply.status, reply.message)
        return _build_health_response(HTTPStatus.OK, "healthy", _HEALTHY_MESSAGE)


def _build_health_response(status: int, word: str, message: str) -> responses.Response:
    return rest_responses.build_json_response({"status": word, "message": message}, status=status)
