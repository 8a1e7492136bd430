"""Connectors: listing, making, configuring and deleting them, and what they are doing.

Follows Java's ConnectorsResource; `lifecycle` and `offsets` have the rest of it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from http import HTTPStatus
from typing import Any

from starlette import responses

from connect_runtime.base import ids
from connect_runtime.core.herder import requests
from connect_runtime.core.state import cluster_config
from connect_runtime.ports import herder, peers
from connect_runtime.rest import asking, errors, exchange, routing, settings, shapes

_NAME = "name"

_log = logging.getLogger(__name__)


class Connectors:
    """The endpoints; they hold no state."""

    def __init__(
        self, of: herder.Herder, *, asks: asking.Asking, configured: settings.RestSettings
    ) -> None:
        self._herder = of
        self._asks = asks
        self._settings = configured

    def endpoints(self) -> list[routing.Endpoint]:
        one = "/connectors/{connector}"
        return [
            routing.Endpoint("GET", "/connectors", self.list_all),
            routing.Endpoint("POST", "/connectors", self.create),
            routing.Endpoint("GET", one, self.info),
            routing.Endpoint("DELETE", one, self.delete),
            routing.Endpoint("GET", f"{one}/config", self.config),
            routing.Endpoint("PUT", f"{one}/config", self.put_config),
            routing.Endpoint("PATCH", f"{one}/config", self.patch_config),
            routing.Endpoint("GET", f"{one}/status", self.status),
            routing.Endpoint("GET", f"{one}/topics", self.topics),
            routing.Endpoint("PUT", f"{one}/topics/reset", self.reset_topics),
            routing.Endpoint("GET", f"{one}/tasks", self.tasks),
            routing.Endpoint("GET", f"{one}/tasks/{{task}}/status", self.task_status),
        ]

    # All of them

    async def list_all(self, asked: exchange.Exchange) -> responses.Response:
        view = self._herder.config()
        expansions = asked.queries("expand")
        if not expansions:
            return shapes.json(view.connectors())
        expanded = {name: self._expanded(name, view, expansions) for name in view.connectors()}
        return shapes.json({name: each for name, each in expanded.items() if each is not None})

    def _expanded(
        self, name: str, view: cluster_config.ClusterConfig, expansions: list[str]
    ) -> dict[str, Any] | None:
        """None for one without a status where that is asked for: it has only just been made."""
        told: dict[str, Any] = {}
        for each in expansions:
            if each == "status":
                status = self._status(name)
                if status is None:
                    return None
                told["status"] = status
            elif each == "info":
                config = view.config(name) or {}
                told["info"] = self._info(name, config, view.tasks(name))
            else:
                _log.info("ignoring the unknown expansion '%s'", each)
        return told

    # One of them

    async def info(self, asked: exchange.Exchange) -> responses.Response:
        found = await self._describe(asked)
        numbers = range(len(found.task_configs))
        tasks = [ids.ConnectorTaskId(found.connector, number) for number in numbers]
        return shapes.json(self._info(found.connector, found.config, tasks))

    async def config(self, asked: exchange.Exchange) -> responses.Response:
        return shapes.json(dict((await self._describe(asked)).config))

    async def tasks(self, asked: exchange.Exchange) -> responses.Response:
        found = await self._describe(asked)
        return shapes.json(
            [
                shapes.task_info(ids.ConnectorTaskId(found.connector, number), config)
                for number, config in enumerate(found.task_configs)
            ]
        )

    async def _describe(self, asked: exchange.Exchange) -> requests.Description:
        reply = await self._asks.ask(requests.Describe(asked.connector))
        assert isinstance(reply, requests.Description), reply
        return reply

    async def status(self, asked: exchange.Exchange) -> responses.Response:
        name = asked.connector
        status = self._status(name)
        if status is None:
            raise errors.RestError(HTTPStatus.NOT_FOUND, f"No status found for connector {name}")
        return shapes.json(status)

    async def task_status(self, asked: exchange.Exchange) -> responses.Response:
        task = ids.ConnectorTaskId(asked.connector, asked.task)
        status = self._herder.statuses().task(task)
        if status is None:
            raise errors.RestError(HTTPStatus.NOT_FOUND, f"No status found for task {task}")
        return shapes.json(shapes.task_state(task, status))

    # Their topics

    async def topics(self, asked: exchange.Exchange) -> responses.Response:
        self._check_tracking()
        return shapes.json(shapes.topics(asked.connector, self._herder.statuses()))

    async def reset_topics(self, asked: exchange.Exchange) -> responses.Response:
        self._check_tracking()
        if not self._settings.topic_reset:
            raise errors.RestError(HTTPStatus.FORBIDDEN, "Topic tracking reset is disabled.")
        await self._asks.result(self._herder.reset_topics(asked.connector))
        return shapes.empty(HTTPStatus.ACCEPTED)

    def _check_tracking(self) -> None:
        if not self._settings.topic_tracking:
            raise errors.RestError(HTTPStatus.FORBIDDEN, "Topic tracking is disabled.")

    # Making, configuring, deleting

    async def create(self, asked: exchange.Exchange) -> responses.Response:
        wanted = await asked.creation()
        _name_it(wanted.name, wanted.config)
        reply = await self._asks.ask_or_forward(
            requests.PutConnector(
                connector=wanted.name,
                config=wanted.config,
                target_state=wanted.initial_state,
                replace=False,
            ),
            asking.Route(method="POST", path="/connectors", body=wanted.to_json()),
            asker=asked,
        )
        return self._put(wanted.name, reply, asked=asked, created=True)

    async def put_config(self, asked: exchange.Exchange) -> responses.Response:
        name, config = asked.connector, await asked.config()
        _name_it(name, config)
        reply = await self._asks.ask_or_forward(
            requests.PutConnector(connector=name, config=config),
            _config_route("PUT", name, config),
            asker=asked,
        )
        created = reply.status == HTTPStatus.CREATED if isinstance(reply, peers.Said) else None
        return self._put(name, reply, asked=asked, created=created)

    async def patch_config(self, asked: exchange.Exchange) -> responses.Response:
        name, patch = asked.connector, await asked.config()
        reply = await self._asks.ask_or_forward(
            requests.PatchConnector(connector=name, patch=patch),
            _config_route("PATCH", name, patch),
            asker=asked,
        )
        return self._put(name, reply, asked=asked, created=False)

    def _put(
        self,
        name: str,
        reply: herder.Reply | peers.Said,
        *,
        asked: exchange.Exchange,
        created: bool | None,
    ) -> responses.Response:
        """`created` None: the herder knows."""
        if isinstance(reply, peers.Said):
            told: shapes.Json = reply.value
        else:
            assert isinstance(reply, requests.Put), reply
            created = reply.created if created is None else created
            told = self._info(name, reply.config, reply.tasks)
        if not created:
            return shapes.json(told)
        location = asked.absolute(peers.connector_path(name))
        return shapes.json(told, status=HTTPStatus.CREATED, headers={"Location": location})

    async def delete(self, asked: exchange.Exchange) -> responses.Response:
        name = asked.connector
        await self._asks.ask_or_forward(
            requests.DeleteConnector(name),
            asking.Route(method="DELETE", path=peers.connector_path(name)),
            asker=asked,
        )
        return shapes.empty(HTTPStatus.NO_CONTENT)

    # Shapes that need the herder

    def _info(
        self,
        name: str,
        config: cluster_config.RawConfig,
        tasks: Iterable[ids.ConnectorTaskId],
    ) -> shapes.Json:
        kind = self._herder.connector_type(config)
        return shapes.connector_info(name, config, tasks, kind=kind)

    def _status(self, name: str) -> shapes.Json:
        statuses = self._herder.statuses()
        connector = statuses.connector(name)
        if connector is None:
            return None
        kind = self._herder.connector_type(self._herder.config().config(name))
        return shapes.connector_status(name, connector, statuses.tasks(name), kind=kind)


def _name_it(name: str, config: dict[str, str | None]) -> None:
    included = config.get(_NAME)
    if included is None:
        config[_NAME] = name
    elif included != name:
        raise errors.RestError(
            HTTPStatus.BAD_REQUEST,
            f"Connector name configuration ({included}) doesn't match connector name in the URL"
            f" ({name})",
        )


def _config_route(method: str, name: str, config: dict[str, str | None]) -> asking.Route:
    return asking.Route(method=method, path=peers.connector_path(name, "config"), body=config)
