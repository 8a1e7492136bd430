"""The OpenAPI 3.1 document of the REST API, served at `/openapi.json`.

Each endpoint is described in one line, and a test compares the descriptions with the routes. The
two internal endpoints are omitted.
"""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import Any

from starlette import responses

from connect_runtime.rest import rest_responses
from connect_runtime.rest.endpoint_routing import Endpoint
from connect_runtime.rest.http_request import RestRequest
from connect_runtime.rest.rest_settings import WorkerIdentity

OPENAPI_PATH = "/openapi.json"

_PARAMETER = re.compile(r"\{(\w+)\}")
_STRING_MAP = {"type": "object", "additionalProperties": {"type": ["string", "null"]}}
_ANY_OBJECT = {"type": "object"}
_CONNECTOR_PATH = "/connectors/{connector}"
_PLUGIN_PATH = "/connector-plugins/{plugin}/config"
_LOGGER_PATH = "/admin/loggers/{logger}"
_UNKNOWN_CONNECTOR = "404: unknown connector"
_REBALANCE_CONFLICT = "409: a rebalance is in progress; retry later"


def _build_object_schema(*required: str, **properties: Any) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    return schema | {"required": list(required)} if required else schema


def _build_array_schema(of: Any) -> dict[str, Any]:
    return {"type": "array", "items": of}


def _build_schema_reference(name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{name}"}


_TEXT = {"type": "string"}
_TEXT_OR_NULL = {"type": ["string", "null"]}
_NUMBER = {"type": "integer"}
_STATE = {
    "state": {
        "type": "string",
        "enum": [
            "UNASSIGNED",
            "RUNNING",
            "PAUSED",
            "STOPPED",
            "FAILED",
            "RESTARTING",
            "DESTROYED",
        ],
    },
    "worker_id": _TEXT,
    "version": _TEXT_OR_NULL,
    "trace": _TEXT,
}

_SCHEMAS: dict[str, Any] = {
    "Error": _build_object_schema(
        "error_code", "message", error_code=_NUMBER, message=_TEXT_OR_NULL
    ),
    "Message": _build_object_schema("message", message=_TEXT),
    "Worker": _build_object_schema(version=_TEXT, commit=_TEXT, kafka_cluster_id=_TEXT_OR_NULL),
    "Health": _build_object_schema(
        status={"type": "string", "enum": ["healthy", "starting", "unhealthy"]}, message=_TEXT
    ),
    "Config": _STRING_MAP,
    "TaskId": _build_object_schema("connector", "task", connector=_TEXT, task=_NUMBER),
    "NewConnector": _build_object_schema(
        "config",
        name=_TEXT,
        config=_build_schema_reference("Config"),
        initial_state={"type": "string", "enum": ["RUNNING", "PAUSED", "STOPPED"]},
    ),
    "Connector": _build_object_schema(
        name=_TEXT,
        config=_build_schema_reference("Config"),
        tasks=_build_array_schema(_build_schema_reference("TaskId")),
        type={"type": "string", "enum": ["source", "sink", "unknown"]},
    ),
    "Task": _build_object_schema(
        id=_build_schema_reference("TaskId"), config=_build_schema_reference("Config")
    ),
    "ConnectorState": _build_object_schema("state", "worker_id", **_STATE),
    "TaskState": _build_object_schema("id", "state", "worker_id", id=_NUMBER, **_STATE),
    "Status": _build_object_schema(
        name=_TEXT,
        connector=_build_schema_reference("ConnectorState"),
        tasks=_build_array_schema(_build_schema_reference("TaskState")),
        type=_TEXT,
    ),
    "Offsets": _build_object_schema(
        "offsets",
        offsets=_build_array_schema(
            _build_object_schema(
                "partition", partition=_ANY_OBJECT, offset={"type": ["object", "null"]}
            )
        ),
    ),
    "Plugin": _build_object_schema(
        "class", "type", **{"class": _TEXT, "type": _TEXT, "version": _TEXT}
    ),
    "ConfigKey": _build_object_schema(
        name=_TEXT,
        type=_TEXT,
        required={"type": "boolean"},
        default_value=_TEXT_OR_NULL,
        importance=_TEXT,
        documentation=_TEXT_OR_NULL,
        group=_TEXT_OR_NULL,
        order_in_group=_NUMBER,
        width=_TEXT,
        display_name=_TEXT,
        dependents=_build_array_schema(_TEXT),
        order=_NUMBER,
    ),
    "ConfigValue": _build_object_schema(
        name=_TEXT,
        value=_TEXT_OR_NULL,
        recommended_values=_build_array_schema(_TEXT_OR_NULL),
        errors=_build_array_schema(_TEXT),
        visible={"type": "boolean"},
    ),
    "Validation": _build_object_schema(
        name=_TEXT,
        error_count=_NUMBER,
        groups=_build_array_schema(_TEXT),
        configs=_build_array_schema(
            _build_object_schema(
                definition=_build_schema_reference("ConfigKey"),
                value=_build_schema_reference("ConfigValue"),
            )
        ),
    ),
    "LoggerLevel": _build_object_schema(level=_TEXT, last_modified={"type": ["integer", "null"]}),
}


def _build_operation(
    summary: str,
    *answers: str,
    takes: Any = None,
    gives: Any = None,
    query: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Build the OpenAPI description of an operation.

    `answers` are its responses, each in the form `STATUS: meaning`. `takes` is the schema of the
    request body, and `gives` the schema of the body of responses with a status below 300; None
    means no body.
    """
    told: dict[str, Any] = {"summary": summary}
    if query:
        told["parameters"] = [
            {"name": name, "in": "query", "required": False, "schema": schema}
            for name, schema in query.items()
        ]
    if takes is not None:
        told["requestBody"] = {"required": True, "content": _build_json_content(takes)}
    told["responses"] = {}
    for each in answers:
        status, _, meaning = each.partition(": ")
        body = (
            gives if int(status) < HTTPStatus.MULTIPLE_CHOICES else _build_schema_reference("Error")
        )
        has_body = body is not None and int(status) != HTTPStatus.NO_CONTENT
        content = {"content": _build_json_content(body)} if has_body else {}
        told["responses"][status] = {"description": meaning or HTTPStatus(int(status)).phrase}
        told["responses"][status] |= content
    return told


def _build_json_content(schema: Any) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}


_FLAG = {"type": "boolean", "default": False}

_OPERATIONS: dict[tuple[str, str], dict[str, Any]] = {
    ("GET", "/"): _build_operation(
        "This worker and its Kafka cluster", "200", gives=_build_schema_reference("Worker")
    ),
    ("GET", "/health"): _build_operation(
        "Health of this worker",
        "200",
        "503: starting",
        "500: unhealthy",
        gives=_build_schema_reference("Health"),
    ),
    ("GET", "/connectors"): _build_operation(
        "Names of all connectors; with `expand`, also their status or info",
        "200",
        gives={"oneOf": [_build_array_schema(_TEXT), _ANY_OBJECT]},
        query={"expand": _build_array_schema({"type": "string", "enum": ["status", "info"]})},
    ),
    ("POST", "/connectors"): _build_operation(
        "Create a connector",
        "201",
        "400: invalid",
        "409: the connector already exists, or a rebalance is in progress",
        takes=_build_schema_reference("NewConnector"),
        gives=_build_schema_reference("Connector"),
    ),
    ("GET", _CONNECTOR_PATH): _build_operation(
        "Get a connector",
        "200",
        _UNKNOWN_CONNECTOR,
        _REBALANCE_CONFLICT,
        gives=_build_schema_reference("Connector"),
    ),
    ("DELETE", _CONNECTOR_PATH): _build_operation(
        "Delete a connector", "204", _UNKNOWN_CONNECTOR, _REBALANCE_CONFLICT
    ),
    ("GET", f"{_CONNECTOR_PATH}/config"): _build_operation(
        "Get a connector's configuration",
        "200",
        _UNKNOWN_CONNECTOR,
        _REBALANCE_CONFLICT,
        gives=_build_schema_reference("Config"),
    ),
    ("PUT", f"{_CONNECTOR_PATH}/config"): _build_operation(
        "Create or reconfigure a connector",
        "200: reconfigured",
        "201: created",
        "400: invalid",
        _REBALANCE_CONFLICT,
        takes=_build_schema_reference("Config"),
        gives=_build_schema_reference("Connector"),
    ),
    ("PATCH", f"{_CONNECTOR_PATH}/config"): _build_operation(
        "Change properties of a connector configuration; null removes a property",
        "200",
        "400: invalid",
        _UNKNOWN_CONNECTOR,
        _REBALANCE_CONFLICT,
        takes=_build_schema_reference("Config"),
        gives=_build_schema_reference("Connector"),
    ),
    ("GET", f"{_CONNECTOR_PATH}/status"): _build_operation(
        "Status of a connector and its tasks",
        "200",
        "404: no status is known",
        gives=_build_schema_reference("Status"),
    ),
    ("GET", f"{_CONNECTOR_PATH}/topics"): _build_operation(
        "Topics that a connector has used since the last reset",
        "200",
        "403: disabled",
        gives=_ANY_OBJECT,
    ),
    ("PUT", f"{_CONNECTOR_PATH}/topics/reset"): _build_operation(
        "Reset the set of topics that a connector has used", "202", "403: disabled"
    ),
    ("GET", f"{_CONNECTOR_PATH}/tasks"): _build_operation(
        "Tasks of a connector with their configurations",
        "200",
        _UNKNOWN_CONNECTOR,
        _REBALANCE_CONFLICT,
        gives=_build_array_schema(_build_schema_reference("Task")),
    ),
    ("GET", f"{_CONNECTOR_PATH}/tasks/{{task}}/status"): _build_operation(
        "Status of a task",
        "200",
        "404: no status is known",
        gives=_build_schema_reference("TaskState"),
    ),
    ("POST", f"{_CONNECTOR_PATH}/tasks/{{task}}/restart"): _build_operation(
        "Restart a task", "204", "404: unknown task", _REBALANCE_CONFLICT, "500: the restart failed"
    ),
    ("POST", f"{_CONNECTOR_PATH}/restart"): _build_operation(
        "Restart a connector; with includeTasks also its tasks, with onlyFailed only failed ones",
        "202: with includeTasks or onlyFailed; returns the restart plan",
        "204: without includeTasks and onlyFailed",
        _UNKNOWN_CONNECTOR,
        _REBALANCE_CONFLICT,
        "500: the restart failed",
        gives=_build_schema_reference("Status"),
        query={"includeTasks": _FLAG, "onlyFailed": _FLAG},
    ),
    ("PUT", f"{_CONNECTOR_PATH}/pause"): _build_operation(
        "Pause a connector and its tasks", "202", _UNKNOWN_CONNECTOR
    ),
    ("PUT", f"{_CONNECTOR_PATH}/resume"): _build_operation(
        "Resume a paused or stopped connector", "202", _UNKNOWN_CONNECTOR
    ),
    ("PUT", f"{_CONNECTOR_PATH}/stop"): _build_operation(
        "Stop a connector and remove its tasks", "204", _UNKNOWN_CONNECTOR, _REBALANCE_CONFLICT
    ),
    ("GET", f"{_CONNECTOR_PATH}/offsets"): _build_operation(
        "Offsets of a connector",
        "200",
        _UNKNOWN_CONNECTOR,
        gives=_build_schema_reference("Offsets"),
    ),
    ("PATCH", f"{_CONNECTOR_PATH}/offsets"): _build_operation(
        "Alter offsets of a stopped connector; a null offset deletes the stored offset",
        "200",
        "400: the offsets are invalid, or the connector is not stopped",
        _UNKNOWN_CONNECTOR,
        _REBALANCE_CONFLICT,
        takes=_build_schema_reference("Offsets"),
        gives=_build_schema_reference("Message"),
    ),
    ("DELETE", f"{_CONNECTOR_PATH}/offsets"): _build_operation(
        "Delete all offsets of a stopped connector",
        "200",
        "400: the connector is not stopped",
        _UNKNOWN_CONNECTOR,
        _REBALANCE_CONFLICT,
        gives=_build_schema_reference("Message"),
    ),
    ("GET", "/connector-plugins"): _build_operation(
        "Installed plugins",
        "200",
        gives=_build_array_schema(_build_schema_reference("Plugin")),
        query={"connectorsOnly": _FLAG | {"default": True}},
    ),
    ("GET", _PLUGIN_PATH): _build_operation(
        "Configuration keys of a plugin",
        "200",
        "400: no such version",
        "404: no such plugin",
        gives=_build_array_schema(_build_schema_reference("ConfigKey")),
        query={"version": _TEXT | {"default": "latest"}},
    ),
    ("PUT", f"{_PLUGIN_PATH}/validate"): _build_operation(
        "Validate a connector configuration; returns the errors of each key",
        "200: also returned for an invalid configuration",
        "400: connector.class is missing or does not match",
        takes=_build_schema_reference("Config"),
        gives=_build_schema_reference("Validation"),
    ),
    ("GET", "/admin/loggers"): _build_operation(
        "Loggers with an explicitly set level",
        "200",
        gives={"type": "object", "additionalProperties": _build_schema_reference("LoggerLevel")},
    ),
    ("GET", _LOGGER_PATH): _build_operation(
        "Level of a logger",
        "200",
        "404: no such logger",
        gives=_build_schema_reference("LoggerLevel"),
    ),
    ("PUT", _LOGGER_PATH): _build_operation(
        "Set the level of a logger and its descendants",
        "200: the changed loggers",
        "204: with scope=cluster",
        "400: no level",
        "404: no such level",
        takes=_build_object_schema("level", level=_TEXT),
        gives=_build_array_schema(_TEXT),
        query={"scope": {"type": "string", "enum": ["worker", "cluster"], "default": "worker"}},
    ),
    ("GET", OPENAPI_PATH): _build_operation("This document", "200", gives=_ANY_OBJECT),
}


def build_openapi_document(identity: WorkerIdentity) -> dict[str, Any]:
    paths: dict[str, dict[str, Any]] = {}
    for (method, path), operation in _OPERATIONS.items():
        told = dict(operation)
        parameters = [_build_path_parameter(name) for name in _PARAMETER.findall(path)]
        parameters += operation.get("parameters", [])
        if parameters:
            told["parameters"] = parameters
        paths.setdefault(path, {})[method.lower()] = told
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Kafka Connect REST API",
            "version": identity.version,
            "description": "Compatible with Apache Kafka Connect: its clients work unchanged.",
        },
        "paths": paths,
        "components": {"schemas": _SCHEMAS},
    }


def _build_path_parameter(name: str) -> dict[str, Any]:
    schema = _NUMBER if name == "task" else _TEXT
    return {"name": name, "in": "path", "required": True, "schema": schema}


class OpenApiResource:
    """Handler of the `/openapi.json` endpoint."""

    def __init__(self, identity: WorkerIdentity) -> None:
        self._document = build_openapi_document(identity)

    def list_endpoints(self) -> list[Endpoint]:
        return [Endpoint("GET", OPENAPI_PATH, self.get_openapi_document)]

    async def get_openapi_document(self, _request: RestRequest) -> responses.Response:
        return rest_responses.build_json_response(self._document)
