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
from connect_runtime.rest.http_request import RestRequest
from connect_runtime.rest.rest_settings import WorkerIdentity
from connect_runtime.rest.routing import Endpoint

OPENAPI_PATH = "/openapi.json"

_PARAMETER = re.compile(r"\{(\w+)\}")
_STRING_MAP = {"type": "object", "additionalProperties": {"type": ["string", "null"]}}
_ANY_OBJECT = {"type": "object"}
_CONNECTOR_PATH = "/connectors/{connector}"
_PLUGIN_PATH = "/connector-plugins/{plugin}/config"
_LOGGER_PATH = "/admin/loggers/{logger}"
_UNKNOWN_CONNECTOR = "404: unknown connector"
_REBALANCE_CONFLICT = "409: a rebalance is in progress; retry later"


def _describe_object(*required: str, **properties: Any) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    return schema | {"required": list(required)} if required else schema


def _describe_array(of: Any) -> dict[str, Any]:
    return {"type": "array", "items": of}


def _describe_reference(name: str) -> dict[str, Any]:
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
    "Error": _describe_object("error_code", "message", error_code=_NUMBER, message=_TEXT_OR_NULL),
    "Message": _describe_object("message", message=_TEXT),
    "Worker": _describe_object(version=_TEXT, commit=_TEXT, kafka_cluster_id=_TEXT_OR_NULL),
    "Health": _describe_object(
        status={"type": "string", "enum": ["healthy", "starting", "unhealthy"]}, message=_TEXT
    ),
    "Config": _STRING_MAP,
    "TaskId": _describe_object("connector", "task", connector=_TEXT, task=_NUMBER),
    "NewConnector": _describe_object(
        "config",
        name=_TEXT,
        config=_describe_reference("Config"),
        initial_state={"type": "string", "enum": ["RUNNING", "PAUSED", "STOPPED"]},
    ),
    "Connector": _describe_object(
        name=_TEXT,
        config=_describe_reference("Config"),
        tasks=_describe_array(_describe_reference("TaskId")),
        type={"type": "string", "enum": ["source", "sink", "unknown"]},
    ),
    "Task": _describe_object(
        id=_describe_reference("TaskId"), config=_describe_reference("Config")
    ),
    "ConnectorState": _describe_object("state", "worker_id", **_STATE),
    "TaskState": _describe_object("id", "state", "worker_id", id=_NUMBER, **_STATE),
    "Status": _describe_object(
        name=_TEXT,
        connector=_describe_reference("ConnectorState"),
        tasks=_describe_array(_describe_reference("TaskState")),
        type=_TEXT,
    ),
    "Offsets": _describe_object(
        "offsets",
        offsets=_describe_array(
            _describe_object(
                "partition", partition=_ANY_OBJECT, offset={"type": ["object", "null"]}
            )
        ),
    ),
    "Plugin": _describe_object(
        "class", "type", **{"class": _TEXT, "type": _TEXT, "version": _TEXT}
    ),
    "ConfigKey": _describe_object(
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
        dependents=_describe_array(_TEXT),
        order=_NUMBER,
    ),
    "ConfigValue": _describe_object(
        name=_TEXT,
        value=_TEXT_OR_NULL,
        recommended_values=_describe_array(_TEXT_OR_NULL),
        errors=_describe_array(_TEXT),
        visible={"type": "boolean"},
    ),
    "Validation": _describe_object(
        name=_TEXT,
        error_count=_NUMBER,
        groups=_describe_array(_TEXT),
        configs=_describe_array(
            _describe_object(
                definition=_describe_reference("ConfigKey"),
                value=_describe_reference("ConfigValue"),
            )
        ),
    ),
    "LoggerLevel": _describe_object(level=_TEXT, last_modified={"type": ["integer", "null"]}),
}


def _describe_operation(
    summary: str,
    *answers: str,
    takes: Any = None,
    gives: Any = None,
    query: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Describe an operation in OpenAPI form. Each of `answers` has the form `STATUS: meaning`.
    Responses with a status below 300 have a body with the schema `gives`, if it is set."""
    told: dict[str, Any] = {"summary": summary}
    if query:
        told["parameters"] = [
            {"name": name, "in": "query", "required": False, "schema": schema}
            for name, schema in query.items()
        ]
    if takes is not None:
        told["requestBody"] = {"required": True, "content": _describe_content(takes)}
    told["responses"] = {}
    for each in answers:
        status, _, meaning = each.partition(": ")
        body = gives if int(status) < HTTPStatus.MULTIPLE_CHOICES else _describe_reference("Error")
        has_body = body is not None and int(status) != HTTPStatus.NO_CONTENT
        content = {"content": _describe_content(body)} if has_body else {}
        told["responses"][status] = {"description": meaning or HTTPStatus(int(status)).phrase}
        told["responses"][status] |= content
    return told


def _describe_content(schema: Any) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}


_FLAG = {"type": "boolean", "default": False}

_OPERATIONS: dict[tuple[str, str], dict[str, Any]] = {
    ("GET", "/"): _describe_operation(
        "This worker and its Kafka cluster", "200", gives=_describe_reference("Worker")
    ),
    ("GET", "/health"): _describe_operation(
        "Health of this worker",
        "200",
        "503: starting",
        "500: unhealthy",
        gives=_describe_reference("Health"),
    ),
    ("GET", "/connectors"): _describe_operation(
        "Names of all connectors; with `expand`, also their status or info",
        "200",
        gives={"oneOf": [_describe_array(_TEXT), _ANY_OBJECT]},
        query={"expand": _describe_array({"type": "string", "enum": ["status", "info"]})},
    ),
    ("POST", "/connectors"): _describe_operation(
        "Create a connector",
        "201",
        "400: invalid",
        "409: the connector already exists, or a rebalance is in progress",
        takes=_describe_reference("NewConnector"),
        gives=_describe_reference("Connector"),
    ),
    ("GET", _CONNECTOR_PATH): _describe_operation(
        "Get a connector",
        "200",
        _UNKNOWN_CONNECTOR,
        _REBALANCE_CONFLICT,
        gives=_describe_reference("Connector"),
    ),
    ("DELETE", _CONNECTOR_PATH): _describe_operation(
        "Delete a connector", "204", _UNKNOWN_CONNECTOR, _REBALANCE_CONFLICT
    ),
    ("GET", f"{_CONNECTOR_PATH}/config"): _describe_operation(
        "Get a connector's configuration",
        "200",
        _UNKNOWN_CONNECTOR,
        _REBALANCE_CONFLICT,
        gives=_describe_reference("Config"),
    ),
    ("PUT", f"{_CONNECTOR_PATH}/config"): _describe_operation(
        "Create or reconfigure a connector",
        "200: reconfigured",
        "201: created",
        "400: invalid",
        _REBALANCE_CONFLICT,
        takes=_describe_reference("Config"),
        gives=_describe_reference("Connector"),
    ),
    ("PATCH", f"{_CONNECTOR_PATH}/config"): _describe_operation(
        "Change properties of a connector configuration; null removes a property",
        "200",
        "400: invalid",
        _UNKNOWN_CONNECTOR,
        _REBALANCE_CONFLICT,
        takes=_describe_reference("Config"),
        gives=_describe_reference("Connector"),
    ),
    ("GET", f"{_CONNECTOR_PATH}/status"): _describe_operation(
        "Status of a connector and its tasks",
        "200",
        "404: no status is known",
        gives=_describe_reference("Status"),
    ),
    ("GET", f"{_CONNECTOR_PATH}/topics"): _describe_operation(
        "Topics that a connector has used since the last reset",
        "200",
        "403: disabled",
        gives=_ANY_OBJECT,
    ),
    ("PUT", f"{_CONNECTOR_PATH}/topics/reset"): _describe_operation(
        "Reset the set of topics that a connector has used", "202", "403: disabled"
    ),
    ("GET", f"{_CONNECTOR_PATH}/tasks"): _describe_operation(
        "Tasks of a connector with their configurations",
        "200",
        _UNKNOWN_CONNECTOR,
        _REBALANCE_CONFLICT,
        gives=_describe_array(_describe_reference("Task")),
    ),
    ("GET", f"{_CONNECTOR_PATH}/tasks/{{task}}/status"): _describe_operation(
        "Status of a task", "200", "404: no status is known", gives=_describe_reference("TaskState")
    ),
    ("POST", f"{_CONNECTOR_PATH}/tasks/{{task}}/restart"): _describe_operation(
        "Restart a task", "204", "404: unknown task", _REBALANCE_CONFLICT, "500: the restart failed"
    ),
    ("POST", f"{_CONNECTOR_PATH}/restart"): _describe_operation(
        "Restart a connector: only the connector, also its tasks, or only failed instances",
        "202: with includeTasks or onlyFailed; returns the restart plan",
        "204: without them",
        _UNKNOWN_CONNECTOR,
        _REBALANCE_CONFLICT,
        "500: the restart failed",
        gives=_describe_reference("Status"),
        query={"includeTasks": _FLAG, "onlyFailed": _FLAG},
    ),
    ("PUT", f"{_CONNECTOR_PATH}/pause"): _describe_operation(
        "Pause a connector and its tasks", "202", _UNKNOWN_CONNECTOR
    ),
    ("PUT", f"{_CONNECTOR_PATH}/resume"): _describe_operation(
        "Resume a paused or stopped connector", "202", _UNKNOWN_CONNECTOR
    ),
    ("PUT", f"{_CONNECTOR_PATH}/stop"): _describe_operation(
        "Stop a connector and remove its tasks", "204", _UNKNOWN_CONNECTOR, _REBALANCE_CONFLICT
    ),
    ("GET", f"{_CONNECTOR_PATH}/offsets"): _describe_operation(
        "Offsets of a connector", "200", _UNKNOWN_CONNECTOR, gives=_describe_reference("Offsets")
    ),
    ("PATCH", f"{_CONNECTOR_PATH}/offsets"): _describe_operation(
        "Alter offsets of a stopped connector; a null offset deletes the stored offset",
        "200",
        "400: the offsets are invalid, or the connector is not stopped",
        _UNKNOWN_CONNECTOR,
        _REBALANCE_CONFLICT,
        takes=_describe_reference("Offsets"),
        gives=_describe_reference("Message"),
    ),
    ("DELETE", f"{_CONNECTOR_PATH}/offsets"): _describe_operation(
        "Delete all offsets of a stopped connector",
        "200",
        "400: the connector is not stopped",
        _UNKNOWN_CONNECTOR,
        _REBALANCE_CONFLICT,
        gives=_describe_reference("Message"),
    ),
    ("GET", "/connector-plugins"): _describe_operation(
        "Installed plugins",
        "200",
        gives=_describe_array(_describe_reference("Plugin")),
        query={"connectorsOnly": _FLAG | {"default": True}},
    ),
    ("GET", _PLUGIN_PATH): _describe_operation(
        "Configuration keys of a plugin",
        "200",
        "400: no such version",
        "404: no such plugin",
        gives=_describe_array(_describe_reference("ConfigKey")),
        query={"version": _TEXT | {"default": "latest"}},
    ),
    ("PUT", f"{_PLUGIN_PATH}/validate"): _describe_operation(
        "Validate a connector configuration; returns the errors of each key",
        "200: also returned for an invalid configuration",
        "400: connector.class is missing or does not match",
        takes=_describe_reference("Config"),
        gives=_describe_reference("Validation"),
    ),
    ("GET", "/admin/loggers"): _describe_operation(
        "Loggers with an explicitly set level",
        "200",
        gives={"type": "object", "additionalProperties": _describe_reference("LoggerLevel")},
    ),
    ("GET", _LOGGER_PATH): _describe_operation(
        "Level of a logger", "200", "404: no such logger", gives=_describe_reference("LoggerLevel")
    ),
    ("PUT", _LOGGER_PATH): _describe_operation(
        "Set the level of a logger and its descendants",
        "200: the changed loggers",
        "204: with scope=cluster",
        "400: no level",
        "404: no such level",
        takes=_describe_object("level", level=_TEXT),
        gives=_describe_array(_TEXT),
        query={"scope": {"type": "string", "enum": ["worker", "cluster"], "default": "worker"}},
    ),
    ("GET", OPENAPI_PATH): _describe_operation("This document", "200", gives=_ANY_OBJECT),
}


def build_document(identity: WorkerIdentity) -> dict[str, Any]:
    paths: dict[str, dict[str, Any]] = {}
    for (method, path), operation in _OPERATIONS.items():
        told = dict(operation)
        parameters = [_describe_path_parameter(name) for name in _PARAMETER.findall(path)]
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


def _describe_path_parameter(name: str) -> dict[str, Any]:
    schema = _NUMBER if name == "task" else _TEXT
    return {"name": name, "in": "path", "required": True, "schema": schema}


class OpenApiResource:
    """Handler of the `/openapi.json` endpoint."""

    def __init__(self, identity: WorkerIdentity) -> None:
        self._document = build_document(identity)

    def endpoints(self) -> list[Endpoint]:
        return [Endpoint("GET", OPENAPI_PATH, self.read)]

    async def read(self, _request: RestRequest) -> responses.Response:
        return rest_responses.respond_json(self._document)
