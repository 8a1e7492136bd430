"""Finds plugins: those shipped here, installed packages' entry points, folders of `plugin.path`.

All of them are imported once, when the worker starts. No name from a connector's
configuration is imported: users of the REST API could run any module.

Entry points are of the group `connect_runtime.plugins`; one whose name has a dot, such as a Java
class's, may be called by that name too. A folder of `plugin.path` holds modules and packages of
Python: all their classes that are plugins count. All share one interpreter: two versions of a
library cannot live side by side. What cannot be imported is logged, and is missing.
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

from connect_runtime.api import config_types, connector, converter, errors, transform
from connect_runtime.api import plugin as plugin_api
from connect_runtime.builtin import aliases
from connect_runtime.builtin.connectors import allowed_paths
from connect_runtime.ports import plugins as port

GROUP = "connect_runtime.plugins"
_LOG = logging.getLogger(__name__)
_Kind = aliases.Kind

_BASES: dict[aliases.Kind, type[Any]] = {
    _Kind.SOURCE: connector.SourceConnector,
    _Kind.SINK: connector.SinkConnector,
    _Kind.CONVERTER: converter.Converter,
    _Kind.HEADER_CONVERTER: converter.HeaderConverter,
    _Kind.TRANSFORMATION: transform.Transformation,
    _Kind.PREDICATE: transform.Predicate,
}
_WORDS = {
    _Kind.SOURCE: "Connector",
    _Kind.SINK: "Connector",
    _Kind.CONVERTER: "Converter",
    _Kind.HEADER_CONVERTER: "HeaderConverter",
    _Kind.TRANSFORMATION: "Transformation",
    _Kind.PREDICATE: "Predicate",
}


class FoundPlugins:
    """Implements `ports.plugins.Plugins`. Invariant: every target is a class of its kind."""

    def __init__(self, found: Iterable[tuple[aliases.Plugin, type[Any]]]) -> None:
        self._classes: dict[tuple[_Kind, str], type[Any]] = {}
        self._plugins: dict[tuple[_Kind, str], aliases.Plugin] = {}
        self._full: dict[tuple[_Kind, str], str] = {}
        self._short: dict[tuple[_Kind, str], set[str]] = {}
        for plugin, of in found:
            self._add(plugin, of)

    def find(self, name: str, *kinds: aliases.Kind) -> type[Any]:
        """See `ports.plugins.Plugins`; so for all below."""
        name = name.strip()
        for kind in kinds:
            target = self._full.get((kind, name))
            if target is not None:
                return self._classes[kind, target]
        meant = {(kind, target) for kind in kinds for target in self._short.get((kind, name), ())}
        if len({target for _, target in meant}) > 1:
            names = ", ".join(sorted(self._plugins[each].java_name for each in meant))
            raise errors.ConfigError(
                f"More than one {_WORDS[kinds[0]].lower()} matches alias {name}. Please use full "
                f"package and class name instead. Classes found: {names}"
            )
        for each in meant:
            return self._classes[each]
        raise errors.ConfigError(self._not_found(name, kinds))

    def installed(self) -> Sequence[port.Installed]:
        return self._installed

    @functools.cached_property
    def _installed(self) -> tuple[port.Installed, ...]:
        """An instance of each is made, once, to be asked for its version."""
        found = {
            (kind, plugin.java_name): port.Installed(
                kind=kind,
                class_name=plugin.java_name,
                version=_version(self._classes[kind, target]),
            )
            for (kind, target), plugin in self._plugins.items()
        }
        order = list(_Kind)

        def place(each: tuple[_Kind, str]) -> tuple[int, str]:
            return order.index(each[0]), each[1]

        return tuple(found[each] for each in sorted(found, key=place))

    def _add(self, plugin: aliases.Plugin, of: type[Any]) -> None:
        key = plugin.kind, plugin.target
        self._classes[key] = of
        known = self._plugins.setdefault(key, plugin)
        if known.java_name == _dotted(known.target):
            self._plugins[key] = plugin  # a name of another's giving is what users write
        for name in plugin.full_names:
            self._full[plugin.kind, name] = plugin.target
        for name in (plugin.java_name, _dotted(plugin.target)):
            for short in aliases.short_names(name, plugin.kind):
                self._short.setdefault((plugin.kind, short), set()).add(plugin.target)

    def _not_found(self, name: str, kinds: Sequence[aliases.Kind]) -> str:
        available = ", ".join(
            sorted({each.java_name for (kind, _), each in self._plugins.items() if kind in kinds})
        )
        told = (
            f"Failed to find any class that implements {_WORDS[kinds[0]]} and which name matches"
            f" {name}, available {_WORDS[kinds[0]].lower()}s are: {available}"
        )
        if any(name in aliases.table(aliases.FILE_STREAMS, kind) for kind in kinds):
            return (
                f"{told}. The FileStream connectors are off: to use them, set"
                f" {allowed_paths.CONFIG} in the worker's properties to the folders whose files"
                " they may read and write"
            )
        return told


def discover(folders: Sequence[str] = (), file_paths: Sequence[str] = ()) -> FoundPlugins:
    """Import all plugins.

    `folders`: the worker's `plugin.path`. `file_paths`: its `file.stream.allowed.paths`; without
    any the FileStream connectors are left out.
    """
    found = [*_shipped(), *_file_streams(file_paths), *_declared()]
    for folder in folders:
        found += _in_folder(pathlib.Path(folder))
    return FoundPlugins(found)


def _shipped() -> list[tuple[aliases.Plugin, type[Any]]]:
    return [(each, config_types.load_class(each.target)) for each in aliases.PLUGINS]


def _file_streams(paths: Sequence[str]) -> list[tuple[aliases.Plugin, type[Any]]]:
    if not paths:
        return []
    allowed = allowed_paths.AllowedPaths(paths)
    return [
        (each, allowed_paths.restrict_to_paths(config_types.load_class(each.target), allowed))
        for each in aliases.FILE_STREAMS
    ]


def _declared() -> list[tuple[aliases.Plugin, type[Any]]]:
    found: list[tuple[aliases.Plugin, type[Any]]] = []
    for point in importlib.metadata.entry_points(group=GROUP):
        try:
            of = point.load()
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - of others' code, which may do anything
            _LOG.error("plugin %s of %s is left out: %s", point.name, _from(point), error)
            continue
        if not isinstance(of, type) or not _kinds(of):
            _LOG.error("plugin %s of %s is left out: it is no plugin", point.name, _from(point))
            continue
        found += _named(of, point.name if "." in point.name else None)
    return found


def _from(point: importlib.metadata.EntryPoint) -> str:
    return point.value if point.dist is None else f"{point.dist.name} ({point.value})"


def _in_folder(folder: pathlib.Path) -> list[tuple[aliases.Plugin, type[Any]]]:
    if not folder.is_dir():
        _LOG.error("plugin.path: %s is no folder", folder)
        return []
    if next(folder.rglob("*.jar"), None) is not None:
        _LOG.warning("plugin.path: jars in %s are left out: they are not of Python", folder)
    place = str(folder.resolve())
    if place not in sys.path:
        sys.path.append(place)
        importlib.invalidate_caches()
    found: list[tuple[aliases.Plugin, type[Any]]] = []
    for info in pkgutil.iter_modules([place]):
        try:
            module = importlib.import_module(info.name)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - of others' code, which may do anything
            _LOG.error("plugin.path: %s in %s is left out: %s", info.name, folder, error)
            continue
        for _, of in inspect.getmembers(module, inspect.isclass):
            if of.__module__.partition(".")[0] == info.name:
                found += _named(of, None)
    if found:
        names = ", ".join(sorted({plugin.java_name for plugin, _ in found}))
        _LOG.info("plugin.path: in %s there are %s", folder, names)
    else:
        _LOG.warning("plugin.path: %s has no plugin in a module or package of Python", folder)
    return found


def _named(of: type[Any], name: str | None) -> list[tuple[aliases.Plugin, type[Any]]]:
    target = f"{of.__module__}:{of.__qualname__}"
    return [(aliases.Plugin(kind, name or _dotted(target), target), of) for kind in _kinds(of)]


def _kinds(of: type[Any]) -> list[aliases.Kind]:
    """None for what cannot be made."""
    if inspect.isabstract(of):
        return []
    return [kind for kind, base in _BASES.items() if issubclass(of, base)]


def _dotted(target: str) -> str:
    return target.replace(":", ".")


def _version(of: type[Any]) -> str | None:
    """As an instance says; None if it says nothing, or cannot."""
    try:
        version = of().version()
    except BaseException as error:  # noqa: BLE001 - of others' code, which may do anything
        _LOG.warning("%s does not tell its version: %s", config_types.class_name(of), error)
        return None
    return version if isinstance(version, str) and version != plugin_api.NO_VERSION else None
