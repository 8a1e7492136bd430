"""Restarting, pausing, resuming and stopping connectors and tasks. Follows ConnectorsResource."""

from __future__ import annotations

from http import HTTPStatus

from starlette import responses

from connect_runtime.base import ids
from connect_runtime.core.herder import requests
from connect_runtime.core.state import cluster_config, config_records
from connect_runtime.ports import herder, peers
from connect_runtime.rest import asking, errors, exchange, routing, shapes


class Lifecycle:
    """The endpoints; they hold no state."""

    def __init__(self, of: herder.Herder, *, asks: asking.Asking) -> None:
        self._herder = of
        self._asks = asks

    def endpoints(self) -> list[routing.Endpoint]:
        one = "/connectors/{connector}"
        return [
            routing.Endpoint("POST", f"{one}/restart", self.restart),
            routing.Endpoint("PUT", f"{one}/pause", self.pause),
            routing.Endpoint("PUT", f"{one}/resume", self.resume),
            routing.Endpoint("PUT", f"{one}/stop", self.stop),
            routing.Endpoint("POST", f"{one}/tasks/{{task}}/restart", self.restart_task),
        ]

    async def restart(self, asked: exchange.Exchange) -> responses.Response:
        """The connector alone, as it always was, or what KIP-745 added, which is not waited for."""
        name = asked.connector
        wanted = config_records.RestartRequest(
            connector=name,
            include_tasks=asked.flag("includeTasks"),
            only_failed=asked.flag("onlyFailed"),
        )
        path = peers.connector_path(name, "restart")
        if not wanted.include_tasks and not wanted.only_failed:
            await self._asks.ask_or_forward(
                requests.RestartConnector(name),
                asking.Route(method="POST", path=path),
                asker=asked,
            )
            return shapes.empty(HTTPStatus.NO_CONTENT)
        flags = {
            "includeTasks": str(wanted.include_tasks).lower(),
            "onlyFailed": str(wanted.only_failed).lower(),
        }
        reply = await self._asks.ask_or_forward(
            requests.RestartAll(wanted),
            asking.Route(method="POST", path=path, query=flags),
            asker=asked,
        )
        return shapes.json(self._planned(name, reply), status=HTTPStatus.ACCEPTED)

    def _planned(self, name: str, reply: herder.Reply | peers.Said) -> shapes.Json:
        if isinstance(reply, peers.Said):
            return reply.value
        assert isinstance(reply, requests.Restarting), reply
        kind = self._herder.connector_type(self._herder.config().config(name))
        return shapes.connector_status(name, reply.plan.connector, reply.plan.tasks, kind=kind)

    async def pause(self, asked: exchange.Exchange) -> responses.Response:
        return await self._set(asked.connector, cluster_config.TargetState.PAUSED)

    async def resume(self, asked: exchange.Exchange) -> responses.Response:
        return await self._set(asked.connector, cluster_config.TargetState.STARTED)

    async def _set(self, connector: str, state: cluster_config.TargetState) -> responses.Response:
        if not self._herder.config().contains(connector):
            raise errors.RestError(HTTPStatus.NOT_FOUND, f"Unknown connector {connector}")
        await self._asks.result(self._herder.set_target_state(connector, state))
        return shapes.empty(HTTPStatus.ACCEPTED)

    async def stop(self, asked: exchange.Exchange) -> responses.Response:
        name = asked.connector
        await self._asks.ask_or_forward(
            requests.StopConnector(name),
            asking.Route(method="PUT", path=peers.connector_path(name, "stop")),
            asker=asked,
        )
        return shapes.empty(HTTPStatus.NO_CONTENT)

    async def restart_task(self, asked: exchange.Exchange) -> responses.Response:
        task = ids.ConnectorTaskId(asked.connector, asked.task)
        path = peers.connector_path(task.connector, "tasks", str(task.task), "restart")
        await self._asks.ask_or_forward(
            requests.RestartTask(task), asking.Route(method="POST", path=path), asker=asked
        )
        return shapes.empty(HTTPStatus.NO_CONTENT)
