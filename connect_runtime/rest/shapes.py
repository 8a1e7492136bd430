"""What is answered, in the JSON shapes of Apache's REST entities (connect/runtime/rest/entities).

Members keep Java's order. Strict clients refuse members that they do not know: nothing is added,
with one exception that is said where it is.
"""

from __future__ import annotations

import json as json_library
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any, TypeAlias

from starlette import responses

from connect_runtime.api import config_infos
from connect_runtime.api import plugin as plugin_api
from connect_runtime.base import ids
from connect_runtime.core.state import cluster_config, status_log, status_records
from connect_runtime.ports import herder
from connect_runtime.system import log_levels

Json: TypeAlias = Any
"""A JSON value: what `json.dumps` takes."""


def json(
    value: Json, *, status: int = HTTPStatus.OK, headers: Mapping[str, str] | None = None
) -> responses.Response:
    """A compact document; half of a surrogate pair becomes a question mark, as in Java."""
    text = json_library.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
    return responses.Response(
        text.encode("utf-8", "replace"),
        status_code=status,
        headers=dict(headers or {}),
        media_type="application/json",
    )


def empty(status: int) -> responses.Response:
    """An answer without a body."""
    return responses.Response(status_code=status)


def error(code: int, message: str) -> Json:
    return {"error_code": code, "message": message}


def connector_info(
    name: str,
    config: cluster_config.RawConfig,
    tasks: Iterable[ids.ConnectorTaskId],
    *,
    kind: herder.ConnectorType,
) -> Json:
    return {
        "name": name,
        "config": dict(config),
        "tasks": [task_id(each) for each in tasks],
        "type": kind.value,
    }


def task_id(task: ids.ConnectorTaskId) -> Json:
    return {"connector": task.connector, "task": task.task}


def task_info(task: ids.ConnectorTaskId, config: cluster_config.RawConfig | None) -> Json:
    return {"id": task_id(task), "config": None if config is None else dict(config)}


def state(status: status_records.Status) -> dict[str, Any]:
    """Of a connector. Without a trace there is no such member; a plugin that does not tell its
    version has none either, but where the status was written without one it is null."""
    told: dict[str, Any] = {"state": status.state.value, "worker_id": status.worker_id}
    if status.version != plugin_api.NO_VERSION:
        told["version"] = status.version
    return told | {"trace": status.trace} if status.trace else told


def task_state(task: ids.ConnectorTaskId, status: status_records.Status) -> Json:
    return {"id": task.task} | state(status)


def connector_status(
    name: str,
    connector: status_records.Status,
    tasks: Mapping[ids.ConnectorTaskId, status_records.Status],
    *,
    kind: herder.ConnectorType,
) -> Json:
    return {
        "name": name,
        "connector": state(connector),
        "tasks": [task_state(task, tasks[task]) for task in sorted(tasks)],
        "type": kind.value,
    }


def topics(connector: str, statuses: status_log.Statuses) -> Json:
    return {connector: {"topics": [each.topic for each in statuses.topics(connector)]}}


def offsets(found: herder.Offsets) -> Json:
    return {
        "offsets": [
            {
                "partition": dict(each.partition),
                "offset": None if each.offset is None else dict(each.offset),
            }
            for each in found.offsets
        ]
    }


def plugin(info: herder.PluginInfo) -> Json:
    told = {"class": info.class_name, "type": info.type.value}
    return told if info.version is None else told | {"version": info.version}


def config_key(info: config_infos.ConfigKeyInfo) -> Json:
    """`order_in_group` was `order` up to 4.1, and clients in use still look for that."""
    return {
        "name": info.name,
        "type": info.type,
        "required": info.required,
        "default_value": info.default_value,
        "importance": info.importance,
        "documentation": info.documentation,
        "group": info.group,
        "order_in_group": info.order_in_group,
        "width": info.width,
        "display_name": info.display_name,
        "dependents": list(info.dependents),
        "order": info.order_in_group,
    }


def config_infos_of(found: config_infos.ConfigInfos) -> Json:
    return {
        "name": found.name,
        "error_count": found.error_count,
        "groups": list(found.groups),
        "configs": [
            {
                "definition": None if each.definition is None else config_key(each.definition),
                "value": None if each.value is None else _config_value(each.value),
            }
            for each in found.configs
        ],
    }


def _config_value(info: config_infos.ConfigValueInfo) -> Json:
    return {
        "name": info.name,
        "value": info.value,
        "recommended_values": list(info.recommended_values),
        "errors": list(info.errors),
        "visible": info.visible,
    }


def logger_level(level: log_levels.LoggerLevel) -> Json:
    return {"level": level.level, "last_modified": level.last_modified_ms}
