"""Plugins whose `config`, `validate` and `version` are what a test says, among the shipped ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from connect_runtime.adapters.plugins import discovery
from connect_runtime.api import config_def, config_types, connector, converter, schema, task
from connect_runtime.builtin import aliases

KEYS = config_def.ConfigDef().define("odd", config_def.Type.INT, "A number.", group="Odd")


class Odd:
    """`does`: by method, what it is to do instead; cleared by `installed`."""

    does: ClassVar[dict[str, Any]] = {}

    def __init__(self) -> None:
        self._do("__init__", None)

    def version(self) -> str:
        return self._do("version", "2.1")  # type: ignore[no-any-return]

    def config(self) -> config_def.ConfigDef:
        return self._do("config", KEYS)  # type: ignore[no-any-return]

    def close(self) -> None:
        self._do("close", None)

    def _do(self, method: str, usual: Any) -> Any:
        wanted = self.does.get(f"{type(self).__name__}.{method}", usual)
        if isinstance(wanted, BaseException):
            raise wanted
        return wanted


class AnyConnector(Odd):
    def task_class(self) -> type[task.Task]:
        raise NotImplementedError

    def task_configs(self, max_tasks: int) -> Sequence[Mapping[str, str]]:
        raise NotImplementedError

    def validate(self, props: Mapping[str, str]) -> list[config_def.ConfigValue]:
        return self._do("validate", KEYS.validate(props))  # type: ignore[no-any-return]


class OddSource(AnyConnector, connector.SourceConnector):
    def can_define_transaction_boundaries(
        self, props: Mapping[str, str]
    ) -> connector.TransactionBoundaries:
        usual = connector.TransactionBoundaries.SUPPORTED
        return self._do("boundaries", usual)  # type: ignore[no-any-return]


class OddSink(AnyConnector, connector.SinkConnector): ...


class OddConverter(Odd, converter.Converter):
    def from_connect_data(self, *given: Any) -> bytes | None:
        raise NotImplementedError

    def to_connect_data(self, *given: Any) -> schema.SchemaAndValue:
        raise NotImplementedError


class NoPlugin: ...


_KINDS = {
    OddSource: aliases.Kind.SOURCE,
    OddSink: aliases.Kind.SINK,
    OddConverter: aliases.Kind.CONVERTER,
}


def installed() -> discovery.FoundPlugins:
    """By their class names, as `OddSource`."""
    Odd.does.clear()
    shipped = [
        (each, config_types.load_class(each.target))
        for each in (*aliases.FILE_STREAMS, *aliases.PLUGINS)
    ]
    odd = [
        (aliases.Plugin(kind, f"odd.{of.__name__}", f"odd:{of.__name__}"), of)
        for of, kind in _KINDS.items()
    ]
    return discovery.FoundPlugins([*shipped, *odd])
