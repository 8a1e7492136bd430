"""The plugins of a worker, as validation needs them: by class, by version, by users' names."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from connect_runtime.api import config_types, converter, errors
from connect_runtime.core.task import plugin_keys, worker_config
from connect_runtime.ports import plugins
from connect_runtime.runtime import plugin_facts

CONVERTERS: Mapping[str, plugins.Kind] = {
    plugin_keys.HEADER_CONVERTER: plugins.Kind.HEADER_CONVERTER,
    plugin_keys.KEY_CONVERTER: plugins.Kind.CONVERTER,
    plugin_keys.VALUE_CONVERTER: plugins.Kind.CONVERTER,
}
"""In the order in which they are validated."""
_CONVERTER_CLASSES = (converter.Converter, converter.HeaderConverter)


class InstalledPlugins:
    """Any thread may ask."""

    def __init__(self, installed: plugins.Plugins, *, worker: worker_config.WorkerConfig) -> None:
        self._installed = installed
        self._worker = worker

    def find(self, name: str, *kinds: plugins.Kind) -> type[Any]:
        """As `ports.plugins.Plugins.find`; of any kind if none is given."""
        return self._installed.find(name, *(kinds or tuple(plugins.Kind)))

    def load(self, name: str) -> type[Any]:
        """As `config_types.LoadClass`: a class of the wrong kind is found too, to be told so."""
        for kinds in (tuple(CONVERTERS.values()), tuple(plugins.Kind)):
            try:
                return self.find(name, *kinds)
            except errors.ConfigError:
                continue
        found = config_types.imported_class(name)
        if issubclass(found, _CONVERTER_CLASSES) and not inspect.isabstract(found):
            raise LookupError(f"no plugin of this worker is called {name}")
        return found

    def names(self) -> Mapping[str, str]:
        """As `shown_infos.Names`."""
        return {
            config_types.class_name(self._installed.find(each.class_name, each.kind)): (
                each.class_name
            )
            for each in self._installed.installed()
        }

    def name(self, of: type) -> str:
        """What users call a class."""
        return plugin_facts.name(of, self._installed, *plugins.Kind)

    def choices(
        self, config: Mapping[str, str | None] | None = None, *, default: str | None = None
    ) -> dict[str, plugin_keys.Choice]:
        """What a connector may have for converters; with what it gets in place of what it leaves.

        Without a configuration nothing is got. `default` is the connector's `default_converter`.
        """
        return {name: self._choice(name, config, default) for name in CONVERTERS}

    def _choice(
        self, name: str, config: Mapping[str, str | None] | None, own_default: str | None
    ) -> plugin_keys.Choice:
        kind = CONVERTERS[name]
        versions = self._versions(kind)
        if config is None:
            return plugin_keys.Choice(there_are=versions)
        mine = own_default if kind is plugins.Kind.CONVERTER else None
        default = self._found(self._default(name) if mine is None else mine, kind)
        own = config.get(name)
        if own is None and mine is None:
            stated = self._worker.raw.get(plugin_keys.version_key(name))
            version = stated or (None if default is None else versions.get(default))
        else:
            chosen = default if own is None else self._found(own, kind)
            version = None if chosen is None else versions.get(chosen)
        return plugin_keys.Choice(default=default, default_version=version, there_are=versions)

    def _default(self, name: str) -> str:
        """The worker's own."""
        match name:
            case plugin_keys.KEY_CONVERTER:
                return self._worker.key_converter
            case plugin_keys.VALUE_CONVERTER:
                return self._worker.value_converter
            case _:
                return self._worker.header_converter

    def _found(self, name: str, kind: plugins.Kind) -> type[Any] | None:
        try:
            return self._installed.find(name, kind)
        except errors.ConfigError:
            return None

    def _versions(self, kind: plugins.Kind) -> plugin_keys.Versions:
        return {
            self._installed.find(each.class_name, kind): each.version
            for each in self._installed.installed()
            if each.kind is kind
        }
