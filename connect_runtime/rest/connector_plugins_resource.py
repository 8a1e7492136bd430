"""Endpoints under `/connector-plugins`: installed plugins, their configuration keys, and
configuration validation.

Follows Java's ConnectorPluginsResource.
"""

from __future__ import annotations

from http import HTTPStatus

from starlette import responses

from connect_runtime.herder.herder_interface import Herder, PluginType
from connect_runtime.rest import rest_responses
from connect_runtime.rest.endpoint_routing import Endpoint
from connect_runtime.rest.http_request import RestRequest
from connect_runtime.rest.request_forwarding import HerderClient
from connect_runtime.rest.rest_errors import RestError

_CLASS_KEY = "connector.class"
_CONNECTOR_SUFFIX = "Connector"
_LATEST_VERSION = "latest"
_PLUGIN_TYPE_ORDER = {each: number for number, each in enumerate(PluginType)}
_CONNECTOR_TYPES = (PluginType.SINK, PluginType.SOURCE)


class ConnectorPluginsResource:
    """Handlers of the `/connector-plugins` endpoints; stateless."""

    def __init__(self, herder: Herder, *, client: HerderClient) -> None:
        self._herder = herder
        self._asks = client

    def list_endpoints(self) -> list[Endpoint]:
        one = "/connector-plugins/{plugin}/config"
        return [
            Endpoint("GET", "/connector-plugins", self.list_connector_plugins),
            Endpoint("GET", one, self.get_connector_config_def),
            Endpoint("PUT", f"{one}/validate", self.validate_configs),
        ]

    async def list_connector_plugins(self, request: RestRequest) -> responses.Response:
        """List plugins, sinks first as in Java. Lists only connectors unless
        `connectorsOnly=false`."""
        only_connectors = request.get_query_flag("connectorsOnly", default=True)
        found = [
            each
            for each in self._herder.plugins()
            if not only_connectors or each.type in _CONNECTOR_TYPES
        ]
        found.sort(
            key=lambda each: (_PLUGIN_TYPE_ORDER[each.type], each.class_name, each.version or "")
        )
        return rest_responses.build_json_response(
            [rest_responses.encode_plugin_info(each) for each in found]
        )

    async def get_connector_config_def(self, request: RestRequest) -> responses.Response:
        version = request.get_query_value("version")
        keys = await self._asks.wait_for_reply(
            self._herder.connector_plugin_config(
                request.get_path_parameter("plugin"),
                None if version == _LATEST_VERSION else version,
            )
        )
        return rest_responses.build_json_response(
            [rest_responses.encode_config_key_info(each) for each in keys]
        )

    async def validate_configs(self, request: RestRequest) -> responses.Response:
        plugin, config = request.get_path_parameter("plugin"), await request.parse_config()
        included = config.get(_CLASS_KEY)
        if included is not None and not _strip_connector_suffix(included).endswith(
            _strip_connector_suffix(plugin)
        ):
            raise RestError(
                HTTPStatus.BAD_REQUEST,
                f"Included connector type {included} does not match request type {plugin}",
            )
        infos = await self._asks.wait_for_reply(self._herder.validate_connector_config(config))
        return rest_responses.build_json_response(rest_responses.encode_config_infos(infos))


def _strip_connector_suffix(name: str) -> str:
    """Strip the suffix `Connector` from a class name or alias, unless nothing else would remain."""
    return name.removesuffix(_CONNECTOR_SUFFIX) or name
