"""What a plugin is called and which version of it this is, for statuses, task configs, metrics."""

from __future__ import annotations

import logging

from connect_runtime.api import connector
from connect_runtime.ports import plugins

_LOG = logging.getLogger(__name__)
CONNECTORS = (plugins.Kind.SOURCE, plugins.Kind.SINK)
CONVERTERS = (plugins.Kind.CONVERTER, plugins.Kind.HEADER_CONVERTER)


def java_name(of: type, installed: plugins.Plugins, *kinds: plugins.Kind) -> str | None:
    """The name of the Java class that it stands in for, should it go by one."""
    names = {
        each.class_name
        for each in installed.installed()
        if each.kind in kinds and installed.find(each.class_name, each.kind) is of
    }
    return next((each for each in sorted(names) if not each.startswith(of.__module__)), None)


def name(of: type, installed: plugins.Plugins, *kinds: plugins.Kind) -> str:
    """As `java_name`, else its own with its module."""
    return java_name(of, installed, *kinds) or f"{of.__module__}.{of.__qualname__}"


def task_name(plugin: connector.Connector, installed: plugins.Plugins) -> str:
    """Of its tasks' class: Java's name where the connector goes by one."""
    of = plugin.task_class()
    java = java_name(type(plugin), installed, *CONNECTORS)
    if java is None:
        return f"{of.__module__}.{of.__qualname__}"
    return f"{java.removesuffix('Connector')}Task"


def default_converter(plugin: connector.Connector) -> str | None:
    """Its own, for keys and values; None: the worker's."""
    return plugin.default_converter if isinstance(plugin, connector.SourceConnector) else None


def of_connector(plugin: connector.Connector, installed: plugins.Plugins) -> dict[str, str]:
    """As metrics say it, by attribute."""
    is_sink = isinstance(plugin, connector.SinkConnector)
    return {
        "connector-type": "sink" if is_sink else "source",
        "connector-class": name(type(plugin), installed, *CONNECTORS),
        "connector-version": version(plugin) or "",
    }


def version(plugin: object) -> str | None:
    """As it says itself; whatever it does, a version is no reason to fail."""
    try:
        found = plugin.version()  # type: ignore[attr-defined]  # all kinds have it
    except BaseException as error:  # noqa: BLE001 - of a plugin
        _LOG.warning("%s does not tell its version: %s", type(plugin).__name__, error)
        return None
    return found if isinstance(found, str) else None
