"""Plugins whose `config`, `validate` and `version` are what a test says, among the shipped ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from connect_runtime.api import config_types
from connect_runtime.api.config_def import ConfigDef, ConfigValue, Type
from connect_runtime.api.connector import SinkConnector, SourceConnector, TransactionBoundaries
from connect_runtime.api.converter import Converter
from connect_runtime.api.schema import SchemaAndValue
from connect_runtime.api.task import Task
from connect_runtime.plugins import plugin_aliases
from connect_runtime.plugins.plugin_aliases import PluginKind, ShippedPlugin
from connect_runtime.plugins.plugin_discovery import DiscoveredPlugins

KEYS = ConfigDef().define("odd", Type.INT, "A number.", group="Odd")


class Odd:
    """`does`: by method, what it is to do instead; cleared by `installed`."""

    does: ClassVar[dict[str, Any]] = {}

    def __init__(self) -> None:
        self._do("__init__", None)

    def version(self) -> str:
        return self._do("version", "2.1")  # type: ignore[no-any-return]

    def config(self) -> ConfigDef:
        return self._do("config", KEYS)  # type: ignore[no-any-return]

    def close(self) -> None:
        self._do("close", None)

    def _do(self, method: str, usual: Any) -> Any:
        wanted = self.does.get(f"{type(self).__name__}.{method}", usual)
        if isinstance(wanted, BaseException):
            raise wanted
        return wanted


class AnyConnector(Odd):
    def task_class(self) -> type[Task]:
        raise NotImplementedError

    def task_configs(self, max_tasks: int) -> Sequence[Mapping[str, str]]:
        raise NotImplementedError

    def validate(self, props: Mapping[str, str]) -> list[ConfigValue]:
        return self._do("validate", KEYS.validate(props))  # type: ignore[no-any-return]


class OddSource(AnyConnector, SourceConnector):
    def can_define_transaction_boundaries(self, props: Mapping[str, str]) -> TransactionBoundaries:
        usual = TransactionBoundaries.SUPPORTED
        return self._do("boundaries", usual)  # type: ignore[no-any-return]


class OddSink(AnyConnector, SinkConnector): ...


class OddConverter(Odd, Converter):
    def from_connect_data(self, *given: Any) -> bytes | None:
        raise NotImplementedError

    def to_connect_data(self, *given: Any) -> SchemaAndValue:
        raise NotImplementedError


class NoPlugin: ...


_KINDS = {
    OddSource: PluginKind.SOURCE,
    OddSink: PluginKind.SINK,
    OddConverter: PluginKind.CONVERTER,
}


def installed() -> DiscoveredPlugins:
    """By their class names, as `OddSource`."""
    Odd.does.clear()
    shipped = [
        (each, config_types.load_class(each.target))
        for each in (*plugin_aliases.FILE_STREAM_PLUGINS, *plugin_aliases.SHIPPED_PLUGINS)
    ]
    odd = [
        (ShippedPlugin(kind, f"odd.{of.__name__}", f"odd:{of.__name__}"), of)
        for of, kind in _KINDS.items()
    ]
    return DiscoveredPlugins([*shipped, *odd])
