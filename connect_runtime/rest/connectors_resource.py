"""Endpoints under `/connectors`: configuration, status, lifecycle and offsets (KIP-875).

Follows Java's ConnectorsResource.
"""

from __future__ import annotations

from collections.abc import Iterable
from http import HTTPStatus
from typing import Any

from starlette import responses

from connect_runtime.base.ids import ConnectorTaskId
from connect_runtime.herder import herder_requests, requests_to_other_workers
from connect_runtime.herder.herder_interface import (
    ConnectorOffsets,
    ConnectorOffsetsModified,
    Herder,
    WorkerReply,
)
from connect_runtime.herder.herder_requests import (
    ConnectorDescription,
    DeleteConnector,
    DescribeConnector,
    ModifyConnectorOffsets,
    PatchConnector,
    PutConnector,
    PutConnectorResult,
    ReadConnectorOffsets,
    RestartAccepted,
    RestartConnector,
    RestartConnectorAndTasks,
    RestartTask,
    StopConnector,
)
from connect_runtime.herder.requests_to_other_workers import PeerResponse
from connect_runtime.rest import rest_responses
from connect_runtime.rest.endpoint_routing import Endpoint
from connect_runtime.rest.http_request import RestRequest
from connect_runtime.rest.request_bodies import OffsetChange
from connect_runtime.rest.request_forwarding import ForwardedRequest, HerderClient
from connect_runtime.rest.rest_errors import RestError
from connect_runtime.rest.rest_responses import JsonValue
from connect_runtime.rest.rest_settings import RestSettings
from connect_runtime.storage.cluster_config_state import ClusterConfigState, RawConfig, TargetState
from connect_runtime.storage.config_records import RestartRequest

_NAME_KEY = "name"


class ConnectorsResource:
    """Handlers of the `/connectors` endpoints that list, create, configure and delete connectors
    and return their statuses and topics; stateless."""

    def __init__(self, herder: Herder, *, client: HerderClient, settings: RestSettings) -> None:
        self._herder = herder
        self._asks = client
        self._settings = settings

    def list_endpoints(self) -> list[Endpoint]:
        one = "/connectors/{connector}"
        return [
            Endpoint("GET", "/connectors", self.list_connectors),
            Endpoint("POST", "/connectors", self.create_connector),
            Endpoint("GET", one, self.get_connector),
            Endpoint("DELETE", one, self.destroy_connector),
            Endpoint("GET", f"{one}/config", self.get_connector_config),
            Endpoint("PUT", f"{one}/config", self.put_connector_config),
            Endpoint("PATCH", f"{one}/config", self.patch_connector_config),
            Endpoint("GET", f"{one}/status", self.get_connector_status),
            Endpoint("GET", f"{one}/topics", self.get_connector_active_topics),
            Endpoint("PUT", f"{one}/topics/reset", self.reset_connector_active_topics),
            Endpoint("GET", f"{one}/tasks", self.get_task_configs),
            Endpoint("GET", f"{one}/tasks/{{task}}/status", self.get_task_status),
        ]

    # All connectors

    async def list_connectors(self, request: RestRequest) -> responses.Response:
        view = self._herder.get_config_state()
        values = request.get_query_values("expand")
        if not values:
            return rest_responses.build_json_response(view.connectors())
        # As in Java, unknown values have no effect.
        expansions = [each for each in dict.fromkeys(values) if each in ("status", "info")]
        expanded = {
            name: self._expand_connector(name, view, expansions) for name in view.connectors()
        }
        return rest_responses.build_json_response(
            {name: each for name, each in expanded.items() if each is not None}
        )

    def _expand_connector(
        self, name: str, view: ClusterConfigState, expansions: list[str]
    ) -> dict[str, Any] | None:
        """Return the information about a connector that the query parameter `expand` selects
        (status, info). Returns None if the status is selected but not known yet, for example
        because the connector is new."""
        told: dict[str, Any] = {}
        for each in expansions:
            if each == "status":
                status = self._encode_connector_status(name)
                if status is None:
                    return None
                told["status"] = status
            else:
                config = view.config(name) or {}
                told["info"] = self._encode_connector_info(name, config, view.tasks(name))
        return told

    # One connector

    async def get_connector(self, request: RestRequest) -> responses.Response:
        found = await self._describe_connector(request)
        numbers = range(len(found.task_configs))
        tasks = [ConnectorTaskId(found.connector, number) for number in numbers]
        return rest_responses.build_json_response(
            self._encode_connector_info(found.connector, found.config, tasks)
        )

    async def get_connector_config(self, request: RestRequest) -> responses.Response:
        return rest_responses.build_json_response(
            dict((await self._describe_connector(request)).config)
        )

    async def get_task_configs(self, request: RestRequest) -> responses.Response:
        found = await self._describe_connector(request)
        return rest_responses.build_json_response(
            [
                rest_responses.encode_task_info(ConnectorTaskId(found.connector, number), config)
                for number, config in enumerate(found.task_configs)
            ]
        )

    async def _describe_connector(self, request: RestRequest) -> ConnectorDescription:
        reply = await self._asks.submit_request(DescribeConnector(request.connector))
        assert isinstance(reply, ConnectorDescription), reply
        return reply

    async def get_connector_status(self, request: RestRequest) -> responses.Response:
        name = request.connector
        status = self._encode_connector_status(name)
        if status is None:
            raise RestError(HTTPStatus.NOT_FOUND, f"No status found for connector {name}")
        return rest_responses.build_json_response(status)

    async def get_task_status(self, request: RestRequest) -> responses.Response:
        task = ConnectorTaskId(request.connector, request.task)
        status = self._herder.get_statuses().task(task)
        if status is None:
            raise RestError(HTTPStatus.NOT_FOUND, f"No status found for task {task}")
        return rest_responses.build_json_response(rest_responses.encode_task_state(task, status))

    # Active topics

    async def get_connector_active_topics(self, request: RestRequest) -> responses.Response:
        self._require_topic_tracking()
        return rest_responses.build_json_response(
            rest_responses.encode_active_topics(request.connector, self._herder.get_statuses())
        )

    async def reset_connector_active_topics(self, request: RestRequest) -> responses.Response:
        self._require_topic_tracking()
        if not self._settings.topic_reset:
            raise RestError(HTTPStatus.FORBIDDEN, "Topic tracking reset is disabled.")
        await self._asks.wait_for_reply(
            self._herder.reset_connector_active_topics(request.connector)
        )
        return rest_responses.build_empty_response(HTTPStatus.ACCEPTED)

    def _require_topic_tracking(self) -> None:
        if not self._settings.topic_tracking:
            raise RestError(HTTPStatus.FORBIDDEN, "Topic tracking is disabled.")

    # Create, configure, delete

    async def create_connector(self, request: RestRequest) -> responses.Response:
        wanted = await request.parse_create_request()
        _set_connector_name(wanted.name, wanted.config)
        reply = await self._asks.submit_or_forward(
            PutConnector(
                connector=wanted.name,
                config=wanted.config,
                target_state=wanted.initial_state,
                replace=False,
            ),
            ForwardedRequest(method="POST", path="/connectors", body=wanted.to_json()),
            rest_request=request,
        )
        return self._respond_with_connector(wanted.name, reply, request=request, created=True)

    async def put_connector_config(self, request: RestRequest) -> responses.Response:
        name, config = request.connector, await request.parse_config()
        _set_connector_name(name, config)
        reply = await self._asks.submit_or_forward(
            PutConnector(connector=name, config=config),
            _build_forwarded_config("PUT", name, config),
            rest_request=request,
        )
        created = reply.status == HTTPStatus.CREATED if isinstance(reply, PeerResponse) else None
        return self._respond_with_connector(name, reply, request=request, created=created)

    async def patch_connector_config(self, request: RestRequest) -> responses.Response:
        name, patch = request.connector, await request.parse_config()
        reply = await self._asks.submit_or_forward(
            PatchConnector(connector=name, patch=patch),
            _build_forwarded_config("PATCH", name, patch),
            rest_request=request,
        )
        return self._respond_with_connector(name, reply, request=request, created=False)

    def _respond_with_connector(
        self,
        name: str,
        reply: WorkerReply | PeerResponse,
        *,
        request: RestRequest,
        created: bool | None,
    ) -> responses.Response:
        """Build the response to a request that created or changed a connector.

        `created` is True if the connector is new. If it is None, the herder's reply says whether
        the connector is new.
        """
        if isinstance(reply, PeerResponse):
            told: JsonValue = reply.value
        else:
            assert isinstance(reply, PutConnectorResult), reply
            created = reply.created if created is None else created
            told = self._encode_connector_info(name, reply.config, reply.tasks)
        if not created:
            return rest_responses.build_json_response(told)
        location = request.build_absolute_url(requests_to_other_workers.build_connector_path(name))
        return rest_responses.build_json_response(
            told, status=HTTPStatus.CREATED, headers={"Location": location}
        )

    async def destroy_connector(self, request: RestRequest) -> responses.Response:
        name = request.connector
        await self._asks.submit_or_forward(
            DeleteConnector(name),
            ForwardedRequest(
                method="DELETE", path=requests_to_other_workers.build_connector_path(name)
            ),
            rest_request=request,
        )
        return rest_responses.build_empty_response(HTTPStatus.NO_CONTENT)

    # Documents that need data of the herder

    def _encode_connector_info(
        self,
        name: str,
        config: RawConfig,
        tasks: Iterable[ConnectorTaskId],
    ) -> JsonValue:
        kind = self._herder.connector_type(config)
        return rest_responses.encode_connector_info(name, config, tasks, kind=kind)

    def _encode_connector_status(self, name: str) -> JsonValue:
        statuses = self._herder.get_statuses()
        connector = statuses.connector(name)
        if connector is None:
            return None
        kind = self._herder.connector_type(self._herder.get_config_state().config(name))
        return rest_responses.encode_connector_status(
            name, connector, statuses.tasks(name), kind=kind
        )


def _set_connector_name(name: str, config: dict[str, str | None]) -> None:
    refused = herder_requests.explain_conflicting_name(name, config)
    if refused:
        raise RestError(HTTPStatus.BAD_REQUEST, refused)
    if config.get(_NAME_KEY) is None:
        config[_NAME_KEY] = name


def _build_forwarded_config(
    method: str, name: str, config: dict[str, str | None]
) -> ForwardedRequest:
    return ForwardedRequest(
        method=method,
        path=requests_to_other_workers.build_connector_path(name, "config"),
        body=config,
    )


class ConnectorLifecycleResource:
    """Handlers that restart, pause, resume and stop connectors and tasks; stateless."""

    def __init__(self, herder: Herder, *, client: HerderClient) -> None:
        self._herder = herder
        self._asks = client

    def list_endpoints(self) -> list[Endpoint]:
        one = "/connectors/{connector}"
        return [
            Endpoint("POST", f"{one}/restart", self.restart_connector),
            Endpoint("PUT", f"{one}/pause", self.pause_connector),
            Endpoint("PUT", f"{one}/resume", self.resume_connector),
            Endpoint("PUT", f"{one}/stop", self.stop_connector),
            Endpoint("POST", f"{one}/tasks/{{task}}/restart", self.restart_task),
        ]

    async def restart_connector(self, request: RestRequest) -> responses.Response:
        """Restart a connector and respond when it has started. With `includeTasks` or `onlyFailed`,
        restart the connector and its tasks and respond immediately (KIP-745)."""
        name = request.connector
        wanted = RestartRequest(
            connector=name,
            include_tasks=request.get_query_flag("includeTasks"),
            only_failed=request.get_query_flag("onlyFailed"),
        )
        path = requests_to_other_workers.build_connector_path(name, "restart")
        if not wanted.include_tasks and not wanted.only_failed:
            await self._asks.submit_or_forward(
                RestartConnector(name),
                ForwardedRequest(method="POST", path=path),
                rest_request=request,
            )
            return rest_responses.build_empty_response(HTTPStatus.NO_CONTENT)
        flags = {
            "includeTasks": str(wanted.include_tasks).lower(),
            "onlyFailed": str(wanted.only_failed).lower(),
        }
        reply = await self._asks.submit_or_forward(
            RestartConnectorAndTasks(wanted),
            ForwardedRequest(method="POST", path=path, query=flags),
            rest_request=request,
        )
        return rest_responses.build_json_response(
            self._encode_restart_plan(name, reply), status=HTTPStatus.ACCEPTED
        )

    def _encode_restart_plan(self, name: str, reply: WorkerReply | PeerResponse) -> JsonValue:
        if isinstance(reply, PeerResponse):
            return reply.value
        assert isinstance(reply, RestartAccepted), reply
        kind = self._herder.connector_type(self._herder.get_config_state().config(name))
        return rest_responses.encode_connector_status(
            name, reply.plan.connector, reply.plan.tasks, kind=kind
        )

    async def pause_connector(self, request: RestRequest) -> responses.Response:
        return await self._set_target_state(request.connector, TargetState.PAUSED)

    async def resume_connector(self, request: RestRequest) -> responses.Response:
        return await self._set_target_state(request.connector, TargetState.STARTED)

    async def _set_target_state(self, connector: str, state: TargetState) -> responses.Response:
        if not self._herder.get_config_state().has_connector(connector):
            raise RestError(HTTPStatus.NOT_FOUND, f"Unknown connector {connector}")
        await self._asks.wait_for_reply(self._herder.set_target_state(connector, state))
        return rest_responses.build_empty_response(HTTPStatus.ACCEPTED)

    async def stop_connector(self, request: RestRequest) -> responses.Response:
        name = request.connector
        await self._asks.submit_or_forward(
            StopConnector(name),
            ForwardedRequest(
                method="PUT", path=requests_to_other_workers.build_connector_path(name, "stop")
            ),
            rest_request=request,
        )
        return rest_responses.build_empty_response(HTTPStatus.NO_CONTENT)

    async def restart_task(self, request: RestRequest) -> responses.Response:
        task = ConnectorTaskId(request.connector, request.task)
        path = requests_to_other_workers.build_connector_path(
            task.connector, "tasks", str(task.task), "restart"
        )
        await self._asks.submit_or_forward(
            RestartTask(task), ForwardedRequest(method="POST", path=path), rest_request=request
        )
        return rest_responses.build_empty_response(HTTPStatus.NO_CONTENT)


class ConnectorOffsetsResource:
    """Handlers that return, alter and reset connector offsets: `/connectors/{connector}/offsets`
    (KIP-875); stateless."""

    def __init__(self, *, client: HerderClient) -> None:
        self._asks = client

    def list_endpoints(self) -> list[Endpoint]:
        path = "/connectors/{connector}/offsets"
        return [
            Endpoint("GET", path, self.get_offsets),
            Endpoint("PATCH", path, self.alter_connector_offsets),
            Endpoint("DELETE", path, self.reset_connector_offsets),
        ]

    async def get_offsets(self, request: RestRequest) -> responses.Response:
        reply = await self._asks.submit_request(ReadConnectorOffsets(request.connector))
        assert isinstance(reply, ConnectorOffsets), reply
        return rest_responses.build_json_response(rest_responses.encode_connector_offsets(reply))

    async def alter_connector_offsets(self, request: RestRequest) -> responses.Response:
        offsets = await request.parse_offsets()
        if not offsets:
            raise RestError(
                HTTPStatus.BAD_REQUEST,
                "Partitions / offsets need to be provided for an alter offsets request",
            )
        return await self._modify_offsets(request, "PATCH", offsets)

    async def reset_connector_offsets(self, request: RestRequest) -> responses.Response:
        return await self._modify_offsets(request, "DELETE", None)

    async def _modify_offsets(
        self, request: RestRequest, method: str, offsets: list[OffsetChange] | None
    ) -> responses.Response:
        name = request.connector
        path = requests_to_other_workers.build_connector_path(name, "offsets")
        body: Any = None
        if offsets is not None:
            body = {"offsets": [{"partition": each, "offset": offset} for each, offset in offsets]}
        reply = await self._asks.submit_or_forward(
            ModifyConnectorOffsets(name, offsets),
            ForwardedRequest(method=method, path=path, body=body),
            rest_request=request,
        )
        if isinstance(reply, PeerResponse):
            return rest_responses.build_json_response(reply.value)
        assert isinstance(reply, ConnectorOffsetsModified), reply
        return rest_responses.build_json_response({"message": reply.message})
