"""The installed plugins, their keys, and whether a configuration would do.

Follows Java's ConnectorPluginsResource.
"""

from __future__ import annotations

from http import HTTPStatus

from starlette import responses

from connect_runtime.ports import herder
from connect_runtime.rest import asking, errors, exchange, routing, shapes

_CLASS = "connector.class"
_SUFFIX = "Connector"
_LATEST = "latest"
_ORDER = {each: number for number, each in enumerate(herder.PluginType)}
_CONNECTORS = (herder.PluginType.SINK, herder.PluginType.SOURCE)


class Plugins:
    """The endpoints; they hold no state."""

    def __init__(self, of: herder.Herder, *, asks: asking.Asking) -> None:
        self._herder = of
        self._asks = asks

    def endpoints(self) -> list[routing.Endpoint]:
        one = "/connector-plugins/{plugin}/config"
        return [
            routing.Endpoint("GET", "/connector-plugins", self.list_all),
            routing.Endpoint("GET", one, self.config),
            routing.Endpoint("PUT", f"{one}/validate", self.validate),
        ]

    async def list_all(self, asked: exchange.Exchange) -> responses.Response:
        """Connectors alone, unless told otherwise; sinks come first, as they always did."""
        only_connectors = asked.flag("connectorsOnly", default=True)
        found = [
            each
            for each in self._herder.plugins()
            if not only_connectors or each.type in _CONNECTORS
        ]
        found.sort(key=lambda each: (_ORDER[each.type], each.class_name, each.version or ""))
        return shapes.json([shapes.plugin(each) for each in found])

    async def config(self, asked: exchange.Exchange) -> responses.Response:
        version = asked.query("version")
        keys = await self._asks.result(
            self._herder.plugin_config(
                asked.name("plugin"), None if version == _LATEST else version
            )
        )
        return shapes.json([shapes.config_key(each) for each in keys])

    async def validate(self, asked: exchange.Exchange) -> responses.Response:
        plugin, config = asked.name("plugin"), await asked.config()
        included = config.get(_CLASS)
        if included is not None and not _plain(included).endswith(_plain(plugin)):
            raise errors.RestError(
                HTTPStatus.BAD_REQUEST,
                f"Included connector type {included} does not match request type {plugin}",
            )
        infos = await self._asks.result(self._herder.validate(config))
        return shapes.json(shapes.config_infos_of(infos))


def _plain(name: str) -> str:
    """A class name, or the alias of one: without `Connector` at its end, if more is left."""
    return name.removesuffix(_SUFFIX) or name
