"""JSON response bodies, in the format of Apache Kafka (connect/runtime/rest/entities).

Members are in the same order as in Java. Strict clients reject unknown members, so no members are
added unless a docstring says so.
"""

from __future__ import annotations

import json as json_library
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any, TypeAlias

from starlette import responses

from connect_runtime.api import plugin
from connect_runtime.api.config_infos import ConfigInfos, ConfigKeyInfo, ConfigValueInfo
from connect_runtime.base.ids import ConnectorTaskId
from connect_runtime.herder.herder_interface import ConnectorOffsets, ConnectorType, PluginInfo
from connect_runtime.storage.cluster_config_state import RawConfig
from connect_runtime.storage.status_records import RunStatus
from connect_runtime.storage.status_topic import StatusSnapshot
from connect_runtime.system.log_levels import LoggerLevel

JsonValue: TypeAlias = Any
"""A JSON value that `json.dumps` accepts."""


def build_json_response(
    value: JsonValue, *, status: int = HTTPStatus.OK, headers: Mapping[str, str] | None = None
) -> responses.Response:
    """Build a response with compact JSON. As in Java, a lone surrogate is replaced with a question
    mark, and non-finite numbers are quoted: "NaN", "Infinity", "-Infinity"."""
    try:
        text = _format_compact_json(value)
    except ValueError:  # JSON has no non-finite numbers
        nonstandard = json_library.dumps(value, default=str)
        text = _format_compact_json(json_library.loads(nonstandard, parse_constant=str))
    return responses.Response(
        text.encode("utf-8", "replace"),
        status_code=status,
        headers=dict(headers or {}),
        media_type="application/json",
    )


def _format_compact_json(value: JsonValue) -> str:
    return json_library.dumps(
        value, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=str
    )


def build_empty_response(status: int) -> responses.Response:
    """Build a response with an empty body."""
    return responses.Response(status_code=status)


def encode_error(code: int, message: str) -> JsonValue:
    return {"error_code": code, "message": message}


def encode_connector_info(
    name: str,
    config: RawConfig,
    tasks: Iterable[ConnectorTaskId],
    *,
    kind: ConnectorType,
) -> JsonValue:
    return {
        "name": name,
        "config": dict(config),
        "tasks": [encode_task_id(each) for each in tasks],
        "type": kind.value,
    }


def encode_task_id(task: ConnectorTaskId) -> JsonValue:
    return {"connector": task.connector, "task": task.task}


def encode_task_info(task: ConnectorTaskId, config: RawConfig | None) -> JsonValue:
    return {"id": encode_task_id(task), "config": None if config is None else dict(config)}


def encode_connector_state(status: RunStatus) -> dict[str, Any]:
    """Encode a connector's state and worker.

    `trace` is omitted if the connector has no stack trace. `version` is omitted if the plugin
    reports no version, and null if the stored status has no version.
    """
    told: dict[str, Any] = {"state": status.state.value, "worker_id": status.worker_id}
    if status.version != plugin.UNDEFINED_VERSION:
        told["version"] = status.version
    return told | {"trace": status.trace} if status.trace else told


def encode_task_state(task: ConnectorTaskId, status: RunStatus) -> JsonValue:
    return {"id": task.task} | encode_connector_state(status)


def encode_connector_status(
    name: str,
    connector: RunStatus,
    tasks: Mapping[ConnectorTaskId, RunStatus],
    *,
    kind: ConnectorType,
) -> JsonValue:
    return {
        "name": name,
        "connector": encode_connector_state(connector),
        "tasks": [encode_task_state(task, tasks[task]) for task in sorted(tasks)],
        "type": kind.value,
    }


def encode_active_topics(connector: str, statuses: StatusSnapshot) -> JsonValue:
    return {connector: {"topics": [each.topic for each in statuses.topics(connector)]}}


def encode_connector_offsets(offsets: ConnectorOffsets) -> JsonValue:
    return {
        "offsets": [
            {
                "partition": dict(each.partition),
                "offset": None if each.offset is None else dict(each.offset),
            }
            for each in offsets.offsets
        ]
    }


def encode_plugin_info(info: PluginInfo) -> JsonValue:
    told = {"class": info.class_name, "type": info.type.value}
    return told if info.version is None else told | {"version": info.version}


def encode_config_key_info(info: ConfigKeyInfo) -> JsonValue:
    """Encode the definition of a configuration key.

    Until Kafka 4.1, `order_in_group` was named `order`. The document contains both members, because
    clients still read `order`.
    """
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


def encode_config_infos(infos: ConfigInfos) -> JsonValue:
    return {
        "name": infos.name,
        "error_count": infos.error_count,
        "groups": list(infos.groups),
        "configs": [
            {
                "definition": None
                if each.definition is None
                else encode_config_key_info(each.definition),
                "value": None if each.value is None else _encode_config_value(each.value),
            }
            for each in infos.configs
        ],
    }


def _encode_config_value(info: ConfigValueInfo) -> JsonValue:
    return {
        "name": info.name,
        "value": info.value,
        "recommended_values": list(info.recommended_values),
        "errors": list(info.errors),
        "visible": info.visible,
    }


def encode_logger_level(level: LoggerLevel) -> JsonValue:
    return {"level": level.level, "last_modified": level.last_modified_ms}
