"""The API described as an OpenAPI 3.1 document, served at `/openapi.json`.

What it says of each endpoint stands here, one line each; a test holds it against the routes. The
two internal endpoints are left out: they are nobody's business.
"""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import Any

from starlette import responses

from connect_runtime.rest import exchange, routing, settings, shapes

PATH = "/openapi.json"

_PARAMETER = re.compile(r"\{(\w+)\}")
_STRINGS = {"type": "object", "additionalProperties": {"type": ["string", "null"]}}
_ANY = {"type": "object"}
_CONNECTOR = "/connectors/{connector}"
_PLUGIN = "/connector-plugins/{plugin}/config"
_LOGGER = "/admin/loggers/{logger}"
_ABSENT = "404: there is no such connector"
_RETRY = "409: a rebalance is going on, try again"


def _object(*required: str, **properties: Any) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    return schema | {"required": list(required)} if required else schema


def _list(of: Any) -> dict[str, Any]:
    return {"type": "array", "items": of}


def _ref(name: str) -> dict[str, Any]:
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
    "Error": _object("error_code", "message", error_code=_NUMBER, message=_TEXT_OR_NULL),
    "Message": _object("message", message=_TEXT),
    "Worker": _object(version=_TEXT, commit=_TEXT, kafka_cluster_id=_TEXT_OR_NULL),
    "Health": _object(
        status={"type": "string", "enum": ["healthy", "starting", "unhealthy"]}, message=_TEXT
    ),
    "Config": _STRINGS,
    "TaskId": _object("connector", "task", connector=_TEXT, task=_NUMBER),
    "NewConnector": _object(
        "config",
        name=_TEXT,
        config=_ref("Config"),
        initial_state={"type": "string", "enum": ["RUNNING", "PAUSED", "STOPPED"]},
    ),
    "Connector": _object(
        name=_TEXT,
        config=_ref("Config"),
        tasks=_list(_ref("TaskId")),
        type={"type": "string", "enum": ["source", "sink", "unknown"]},
    ),
    "Task": _object(id=_ref("TaskId"), config=_ref("Config")),
    "ConnectorState": _object("state", "worker_id", **_STATE),
    "TaskState": _object("id", "state", "worker_id", id=_NUMBER, **_STATE),
    "Status": _object(
        name=_TEXT,
        connector=_ref("ConnectorState"),
        tasks=_list(_ref("TaskState")),
        type=_TEXT,
    ),
    "Offsets": _object(
        "offsets",
        offsets=_list(_object("partition", partition=_ANY, offset={"type": ["object", "null"]})),
    ),
    "Plugin": _object("class", "type", **{"class": _TEXT, "type": _TEXT, "version": _TEXT}),
    "ConfigKey": _object(
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
        dependents=_list(_TEXT),
        order=_NUMBER,
    ),
    "ConfigValue": _object(
        name=_TEXT,
        value=_TEXT_OR_NULL,
        recommended_values=_list(_TEXT_OR_NULL),
        errors=_list(_TEXT),
        visible={"type": "boolean"},
    ),
    "Validation": _object(
        name=_TEXT,
        error_count=_NUMBER,
        groups=_list(_TEXT),
        configs=_list(_object(definition=_ref("ConfigKey"), value=_ref("ConfigValue"))),
    ),
    "LoggerLevel": _object(level=_TEXT, last_modified={"type": ["integer", "null"]}),
}


def _operation(
    summary: str,
    *answers: str,
    takes: Any = None,
    gives: Any = None,
    query: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """`answers`: "STATUS: what it means"; those below 300 have `gives` as their body, if any."""
    told: dict[str, Any] = {"summary": summary}
    if query:
        told["parameters"] = [
            {"name": name, "in": "query", "required": False, "schema": schema}
            for name, schema in query.items()
        ]
    if takes is not None:
        told["requestBody"] = {"required": True, "content": _content(takes)}
    told["responses"] = {}
    for each in answers:
        status, _, meaning = each.partition(": ")
        body = gives if int(status) < HTTPStatus.MULTIPLE_CHOICES else _ref("Error")
        has_body = body is not None and int(status) != HTTPStatus.NO_CONTENT
        content = {"content": _content(body)} if has_body else {}
        told["responses"][status] = {"description": meaning or HTTPStatus(int(status)).phrase}
        told["responses"][status] |= content
    return told


def _content(schema: Any) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}


_FLAG = {"type": "boolean", "default": False}

_OPERATIONS: dict[tuple[str, str], dict[str, Any]] = {
    ("GET", "/"): _operation("This worker and its Kafka cluster", "200", gives=_ref("Worker")),
    ("GET", "/health"): _operation(
        "Whether this worker is well", "200", "503: starting", "500: unhealthy",
        gives=_ref("Health"),
    ),
    ("GET", "/connectors"): _operation(
        "Names of all connectors, or with `expand` what is known of each", "200",
        gives={"oneOf": [_list(_TEXT), _ANY]},
        query={"expand": _list({"type": "string", "enum": ["status", "info"]})},
    ),
    ("POST", "/connectors"): _operation(
        "Create a connector", "201", "400: invalid", "409: exists, or a rebalance is going on",
        takes=_ref("NewConnector"), gives=_ref("Connector"),
    ),
    ("GET", _CONNECTOR): _operation(
        "A connector", "200", _ABSENT, _RETRY, gives=_ref("Connector")
    ),
    ("DELETE", _CONNECTOR): _operation("Delete a connector", "204", _ABSENT, _RETRY),
    ("GET", f"{_CONNECTOR}/config"): _operation(
        "Its configuration", "200", _ABSENT, _RETRY, gives=_ref("Config")
    ),
    ("PUT", f"{_CONNECTOR}/config"): _operation(
        "Create or reconfigure it", "200: reconfigured", "201: created", "400: invalid", _RETRY,
        takes=_ref("Config"), gives=_ref("Connector"),
    ),
    ("PATCH", f"{_CONNECTOR}/config"): _operation(
        "Change some of its properties; null removes one", "200", "400: invalid", _ABSENT, _RETRY,
        takes=_ref("Config"), gives=_ref("Connector"),
    ),
    ("GET", f"{_CONNECTOR}/status"): _operation(
        "What it and its tasks are doing", "200", "404: nothing is known", gives=_ref("Status")
    ),
    ("GET", f"{_CONNECTOR}/topics"): _operation(
        "Topics it has used since they were reset", "200", "403: disabled", gives=_ANY
    ),
    ("PUT", f"{_CONNECTOR}/topics/reset"): _operation(
        "Forget which topics it has used", "202", "403: disabled"
    ),
    ("GET", f"{_CONNECTOR}/tasks"): _operation(
        "Its tasks, with their configurations", "200", _ABSENT, _RETRY, gives=_list(_ref("Task"))
    ),
    ("GET", f"{_CONNECTOR}/tasks/{{task}}/status"): _operation(
        "What one task is doing", "200", "404: nothing is known", gives=_ref("TaskState")
    ),
    ("POST", f"{_CONNECTOR}/tasks/{{task}}/restart"): _operation(
        "Restart one task", "204", "404: there is no such task", _RETRY, "500: it did not start"
    ),
    ("POST", f"{_CONNECTOR}/restart"): _operation(
        "Restart it: alone, with its tasks, or what of it failed",
        "202: with a flag; how it stands", "204: without", _ABSENT, _RETRY,
        "500: it did not start", gives=_ref("Status"),
        query={"includeTasks": _FLAG, "onlyFailed": _FLAG},
    ),
    ("PUT", f"{_CONNECTOR}/pause"): _operation("Pause it and its tasks", "202", _ABSENT),
    ("PUT", f"{_CONNECTOR}/resume"): _operation("Let it run again", "202", _ABSENT),
    ("PUT", f"{_CONNECTOR}/stop"): _operation(
        "Stop it, and give up its tasks", "204", _ABSENT, _RETRY
    ),
    ("GET", f"{_CONNECTOR}/offsets"): _operation(
        "Its offsets", "200", _ABSENT, gives=_ref("Offsets")
    ),
    ("PATCH", f"{_CONNECTOR}/offsets"): _operation(
        "Alter offsets of a stopped connector; a null offset forgets one", "200",
        "400: invalid, or it is not stopped", _ABSENT, _RETRY,
        takes=_ref("Offsets"), gives=_ref("Message"),
    ),
    ("DELETE", f"{_CONNECTOR}/offsets"): _operation(
        "Forget all offsets of a stopped connector", "200", "400: it is not stopped", _ABSENT,
        _RETRY, gives=_ref("Message"),
    ),
    ("GET", "/connector-plugins"): _operation(
        "What is installed here", "200", gives=_list(_ref("Plugin")),
        query={"connectorsOnly": _FLAG | {"default": True}},
    ),
    ("GET", _PLUGIN): _operation(
        "The keys that a plugin knows", "200", "400: no such version", "404: no such plugin",
        gives=_list(_ref("ConfigKey")), query={"version": _TEXT | {"default": "latest"}},
    ),
    ("PUT", f"{_PLUGIN}/validate"): _operation(
        "What is wrong with a configuration, key by key", "200: also where something is wrong",
        "400: no connector.class, or another", takes=_ref("Config"), gives=_ref("Validation"),
    ),
    ("GET", "/admin/loggers"): _operation(
        "Loggers that have a level of their own", "200",
        gives={"type": "object", "additionalProperties": _ref("LoggerLevel")},
    ),
    ("GET", _LOGGER): _operation(
        "A logger's level", "200", "404: no such logger", gives=_ref("LoggerLevel")
    ),
    ("PUT", _LOGGER): _operation(
        "Set the level of a logger and those below it", "200: the loggers that were set",
        "204: with scope=cluster", "400: no level", "404: no such level",
        takes=_object("level", level=_TEXT), gives=_list(_TEXT),
        query={"scope": {"type": "string", "enum": ["worker", "cluster"], "default": "worker"}},
    ),
    ("GET", PATH): _operation("This document", "200", gives=_ANY),
}  # fmt: skip


def document(identity: settings.Identity) -> dict[str, Any]:
    paths: dict[str, dict[str, Any]] = {}
    for (method, path), operation in _OPERATIONS.items():
        told = dict(operation)
        parameters = [_path_parameter(name) for name in _PARAMETER.findall(path)]
        parameters += operation.get("parameters", [])
        if parameters:
            told["parameters"] = parameters
        paths.setdefault(path, {})[method.lower()] = told
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Kafka Connect REST API",
            "version": identity.version,
            "description": "As Apache Kafka Connect has it: its clients work unchanged.",
        },
        "paths": paths,
        "components": {"schemas": _SCHEMAS},
    }


def _path_parameter(name: str) -> dict[str, Any]:
    schema = _NUMBER if name == "task" else _TEXT
    return {"name": name, "in": "path", "required": True, "schema": schema}


class Document:
    """The endpoint that serves it."""

    def __init__(self, identity: settings.Identity) -> None:
        self._document = document(identity)

    def endpoints(self) -> list[routing.Endpoint]:
        return [routing.Endpoint("GET", PATH, self.read)]

    async def read(self, _asked: exchange.Exchange) -> responses.Response:
        return shapes.json(self._document)
