"""Finds plugins: shipped plugins, entry points of installed packages, and modules in directories of
`plugin.path`.

All plugins are imported once, when the worker starts. Names in connector configurations never
trigger an import, because users of the REST API could then run any module.

Entry points belong to the group `connect_runtime.plugins`. An entry point name that contains a dot,
such as a Java class name, is also an alias. A directory of `plugin.path` contains Python modules
and packages; all plugin classes in them are found. All plugins share one interpreter, so two
versions of a library cannot coexist. Modules that cannot be imported are logged and skipped.
"""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
import inspect
import logging
import pathlib
import pkgutil
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from connect_runtime.api import config_types, plugin
from connect_runtime.api.connector import SinkConnector, SourceConnector
from connect_runtime.api.converter import Converter, HeaderConverter
from connect_runtime.api.errors import ConfigError
from connect_runtime.api.transformation import Predicate, Transformation
from connect_runtime.plugins import allowed_paths, plugin_aliases
from connect_runtime.plugins.allowed_paths import AllowedPaths
from connect_runtime.plugins.plugin_aliases import InstalledPlugin, PluginKind, ShippedPlugin

ENTRY_POINT_GROUP = "connect_runtime.plugins"
_LOG = logging.getLogger(__name__)
_Kind = PluginKind

_PLUGIN_BASES: dict[PluginKind, type[Any]] = {
    _Kind.SOURCE: SourceConnector,
    _Kind.SINK: SinkConnector,
    _Kind.CONVERTER: Converter,
    _Kind.HEADER_CONVERTER: HeaderConverter,
    _Kind.TRANSFORMATION: Transformation,
    _Kind.PREDICATE: Predicate,
}
_KIND_NAMES = {
    _Kind.SOURCE: "Connector",
    _Kind.SINK: "Connector",
    _Kind.CONVERTER: "Converter",
    _Kind.HEADER_CONVERTER: "HeaderConverter",
    _Kind.TRANSFORMATION: "Transformation",
    _Kind.PREDICATE: "Predicate",
}


class DiscoveredPlugins:
    """Stores the discovered plugins by name. Implements `PluginRegistry`.

    Invariant: every alias refers to a class of its kind.
    """

    def __init__(self, classes: Iterable[tuple[ShippedPlugin, type[Any]]]) -> None:
        self._classes: dict[tuple[_Kind, str], type[Any]] = {}
        self._plugins: dict[tuple[_Kind, str], ShippedPlugin] = {}
        self._full: dict[tuple[_Kind, str], str] = {}
        self._short: dict[tuple[_Kind, str], set[str]] = {}
        for shipped, of in classes:
            self._add_plugin(shipped, of)

    def find_plugin_class(self, name: str, *kinds: PluginKind) -> type[Any]:
        """Return the plugin class with the given name; implements
        `PluginRegistry.find_plugin_class`."""
        name = name.strip()
        for kind in kinds:
            target = self._full.get((kind, name))
            if target is not None:
                return self._classes[kind, target]
        meant = {(kind, target) for kind in kinds for target in self._short.get((kind, name), ())}
        if len({target for _, target in meant}) > 1:
            names = ", ".join(sorted(self._plugins[each].java_name for each in meant))
            raise ConfigError(
                f"More than one {_KIND_NAMES[kinds[0]].lower()} matches alias {name}. Please "
                "use full "
                f"package and class name instead. Classes found: {names}"
            )
        for each in meant:
            return self._classes[each]
        raise ConfigError(self._describe_missing_plugin(name, kinds))

    def list_installed_plugins(self) -> Sequence[InstalledPlugin]:
        return self._list_installed_plugins

    @functools.cached_property
    def _list_installed_plugins(self) -> tuple[InstalledPlugin, ...]:
        """List the discovered plugins with their versions. Each plugin is instantiated once to read
        its version."""
        found = {
            (kind, plugin.java_name): InstalledPlugin(
                kind=kind,
                class_name=plugin.java_name,
                version=_read_plugin_version(self._classes[kind, target]),
            )
            for (kind, target), plugin in self._plugins.items()
        }
        order = list(_Kind)

        def get_sort_key(each: tuple[_Kind, str]) -> tuple[int, str]:
            return order.index(each[0]), each[1]

        return tuple(found[each] for each in sorted(found, key=get_sort_key))

    def _add_plugin(self, plugin: ShippedPlugin, of: type[Any]) -> None:
        key = plugin.kind, plugin.target
        self._classes[key] = of
        known = self._plugins.setdefault(key, plugin)
        if known.java_name == _to_dotted_name(known.target):
            self._plugins[key] = plugin  # the name given by the entry point is the one users write
        for name in plugin.full_names:
            self._full[plugin.kind, name] = plugin.target
        for name in (plugin.java_name, _to_dotted_name(plugin.target)):
            for short in plugin_aliases.list_short_names(name, plugin.kind):
                self._short.setdefault((plugin.kind, short), set()).add(plugin.target)

    def _describe_missing_plugin(self, name: str, kinds: Sequence[PluginKind]) -> str:
        available = ", ".join(
            sorted({each.java_name for (kind, _), each in self._plugins.items() if kind in kinds})
        )
        told = (
            f"Failed to find any class that implements {_KIND_NAMES[kinds[0]]} and which name "
            "matches"
            f" {name}, available {_KIND_NAMES[kinds[0]].lower()}s are: {available}"
        )
        if any(
            name in plugin_aliases.build_alias_table(plugin_aliases.FILE_STREAM_PLUGINS, kind)
            for kind in kinds
        ):
            return (
                f"{told}. The FileStream connectors are disabled: to enable them, set"
                f" {allowed_paths.ALLOWED_PATHS_CONFIG} in the worker's properties to the "
                "folders whose files"
                " they may access"
            )
        return told


def discover_plugins(
    folders: Sequence[str] = (), file_paths: Sequence[str] = ()
) -> DiscoveredPlugins:
    """Import all plugins and return them.

    `folders` is the worker's `plugin.path`, and `file_paths` its `file.stream.allowed.paths`. If
    `file_paths` is empty, the FileStream connectors are omitted.
    """
    found = [
        *_load_shipped_plugins(),
        *_load_file_stream_plugins(file_paths),
        *_load_entry_point_plugins(),
    ]
    for folder in folders:
        found += _load_directory_plugins(pathlib.Path(folder))
    return DiscoveredPlugins(found)


def _load_shipped_plugins() -> list[tuple[ShippedPlugin, type[Any]]]:
    return [(each, config_types.load_class(each.target)) for each in plugin_aliases.SHIPPED_PLUGINS]


def _load_file_stream_plugins(paths: Sequence[str]) -> list[tuple[ShippedPlugin, type[Any]]]:
    if not paths:
        return []
    allowed = AllowedPaths(paths)
    return [
        (
            each,
            allowed_paths.restrict_plugin_to_paths(config_types.load_class(each.target), allowed),
        )
        for each in plugin_aliases.FILE_STREAM_PLUGINS
    ]


def _load_entry_point_plugins() -> list[tuple[ShippedPlugin, type[Any]]]:
    found: list[tuple[ShippedPlugin, type[Any]]] = []
    for point in importlib.metadata.entry_points(group=ENTRY_POINT_GROUP):
        try:
            of = point.load()
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - of others' code, which may do anything
            _LOG.error("skipping plugin %s of %s: %s", point.name, _describe_origin(point), error)
            continue
        if not isinstance(of, type) or not _find_plugin_kinds(of):
            _LOG.error(
                "skipping plugin %s of %s: not a plugin", point.name, _describe_origin(point)
            )
            continue
        found += _create_plugin_entries(of, point.name if "." in point.name else None)
    return found


def _describe_origin(point: importlib.metadata.EntryPoint) -> str:
    return point.value if point.dist is None else f"{point.dist.name} ({point.value})"


def _load_directory_plugins(folder: pathlib.Path) -> list[tuple[ShippedPlugin, type[Any]]]:
    if not folder.is_dir():
        _LOG.error("plugin.path: %s is not a directory", folder)
        return []
    if next(folder.rglob("*.jar"), None) is not None:
        _LOG.warning("plugin.path: ignoring jars in %s: Java plugins cannot be loaded", folder)
    place = str(folder.resolve())
    if place not in sys.path:
        sys.path.append(place)
        importlib.invalidate_caches()
    found: list[tuple[ShippedPlugin, type[Any]]] = []
    for info in pkgutil.iter_modules([place]):
        try:
            module = importlib.import_module(info.name)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - of others' code, which may do anything
            _LOG.error("plugin.path: skipping %s in %s: %s", info.name, folder, error)
            continue
        for _, of in inspect.getmembers(module, inspect.isclass):
            if of.__module__.partition(".")[0] == info.name:
                found += _create_plugin_entries(of, None)
    if found:
        names = ", ".join(sorted({plugin.java_name for plugin, _ in found}))
        _LOG.info("plugin.path: plugins in %s: %s", folder, names)
    else:
        _LOG.warning("plugin.path: no plugins found in the Python modules of %s", folder)
    return found


def _create_plugin_entries(
    of: type[Any], name: str | None
) -> list[tuple[ShippedPlugin, type[Any]]]:
    target = f"{of.__module__}:{of.__qualname__}"
    return [
        (ShippedPlugin(kind, name or _to_dotted_name(target), target), of)
        for kind in _find_plugin_kinds(of)
    ]


def _find_plugin_kinds(of: type[Any]) -> list[PluginKind]:
    """Return the plugin kinds that a class implements; empty for an abstract class."""
    if inspect.isabstract(of):
        return []
    return [kind for kind, base in _PLUGIN_BASES.items() if issubclass(of, base)]


def _to_dotted_name(target: str) -> str:
    return target.replace(":", ".")


def _read_plugin_version(of: type[Any]) -> str | None:
    """Return the version that an instance of the plugin reports; None if it reports none or raises
    an error."""
    try:
        version = of().version()
    except BaseException as error:  # noqa: BLE001 - of others' code, which may do anything
        _LOG.warning("cannot read the version of %s: %s", config_types.get_class_name(of), error)
        return None
    return version if isinstance(version, str) and version != plugin.UNDEFINED_VERSION else None
