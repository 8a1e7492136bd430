"""Parses request bodies as Jackson does for the REST entities of Apache Kafka.

A configuration is a map of strings: numbers and booleans are converted to text, nulls are kept.
Error messages do not repeat values, which may be secret.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from connect_runtime.api import config_types
from connect_runtime.base import json_limits
from connect_runtime.config import connector_config_keys
from connect_runtime.herder import herder_requests
from connect_runtime.storage import java_hash_map_json
from connect_runtime.storage.cluster_config_state import TargetState

JSON_VALUES_MAX = 500_000
"""Maximum number of JSON values in a body, enough for the offsets of 70,000 partitions. The limit
exists because a parsed value needs many times the memory of its text."""

_INITIAL_STATES = {
    "RUNNING": TargetState.STARTED,
    "PAUSED": TargetState.PAUSED,
    "STOPPED": TargetState.STOPPED,
}
MAX_BODY_BYTES = 8 * 1024 * 1024
"""Maximum size of a request body."""


class UnreadableBody(Exception):
    """Raised if a request body does not have the required form. The message describes this form."""


class BodyLimitError(UnreadableBody):
    """Raised if a request body contains more values, keys or task configurations than allowed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateConnectorRequest:
    """Body of `POST /connectors`. If `initial_state` is None, the connector is created in the state
    RUNNING."""

    name: str
    config: dict[str, str | None] = field(repr=False)
    initial_state: TargetState | None = None

    def to_json(self) -> dict[str, Any]:
        """Encode the request as a JSON body that another worker can parse."""
        states = {state: text for text, state in _INITIAL_STATES.items()}
        state = None if self.initial_state is None else states[self.initial_state]
        return {"name": self.name, "config": self.config, "initial_state": state}


OffsetChange = tuple[Mapping[str, object], "Mapping[str, object] | None"]


def parse_config(data: bytes) -> dict[str, str | None]:
    """Parse a request body with a connector configuration or another map of strings. Raises
    `UnreadableBody`."""
    return _convert_values_to_strings(
        _require_object(_parse_json_with_text_numbers(data), "a JSON object of strings"),
        "the configuration",
    )


def parse_task_configs(data: bytes) -> list[dict[str, str | None]]:
    """Parse a request body with the task configurations of a connector. Raises `UnreadableBody`."""
    value = _parse_json_with_text_numbers(data)
    if not isinstance(value, list):
        raise UnreadableBody(
            f"expected a JSON array of objects, not {java_hash_map_json.get_json_type_name(value)}"
        )
    if len(value) > connector_config_keys.TASKS_MAX_LIMIT:
        raise BodyLimitError(
            f"the body has {len(value):,} task configurations; a connector may have at most "
            f"{connector_config_keys.TASKS_MAX_LIMIT:,} tasks"
        )
    return [
        _convert_values_to_strings(
            _require_object(each, "an array of JSON objects"), "the configuration"
        )
        for each in value
    ]


def parse_create_request(data: bytes, *, ignore_unknown: bool = False) -> CreateConnectorRequest:
    """Parse the body of `POST /connectors` and trim the connector name. Raises `UnreadableBody`.

    If `ignore_unknown` is true, unknown fields are ignored.
    """
    given = _require_object(
        _parse_json_with_text_numbers(data), 'a JSON object {"name": …, "config": {…}}'
    )
    if not ignore_unknown:
        _reject_unknown_fields(given, ("name", "config", "initial_state"))
    name = given.get("name")
    if isinstance(name, dict | list):
        raise UnreadableBody(
            f"'name' must be a string, not {java_hash_map_json.get_json_type_name(name)}"
        )
    wanted = _require_object(given.get("config"), "a JSON object of strings as 'config'")
    name = "" if name is None else _convert_value_to_string(name).strip(config_types.JAVA_BLANKS)
    refused = connector_config_keys.explain_invalid_name(name)
    if refused:
        raise UnreadableBody(f"'name' {refused}")
    return CreateConnectorRequest(
        name=name,
        config=_convert_values_to_strings(wanted, "'config'"),
        initial_state=_parse_initial_state(given.get("initial_state")),
    )


def _parse_initial_state(given: Any) -> TargetState | None:
    if given is None:
        return None
    state = _INITIAL_STATES.get(given.upper()) if isinstance(given, str) else None
    if state is None:
        raise UnreadableBody(f"'initial_state' must be one of {', '.join(_INITIAL_STATES)}")
    return state


def parse_offset_changes(data: bytes) -> list[OffsetChange]:
    """Parse the body of an alter-offsets request into (partition, new offset) pairs. An offset of
    None deletes the stored offset.

    If a partition occurs twice, its last offset is used. Raises `UnreadableBody`.
    """
    given = _require_object(_parse_json(data, {}), 'a JSON object {"offsets": […]}')
    _reject_unknown_fields(given, ("offsets",))
    entries = given.get("offsets")
    if entries is None:
        return []
    if not isinstance(entries, list):
        raise UnreadableBody(
            f"'offsets' must be an array, not {java_hash_map_json.get_json_type_name(entries)}"
        )
    found: dict[str, OffsetChange] = {}
    for each in entries:
        entry = _require_object(each, "a JSON object as an entry of 'offsets'")
        _reject_unknown_fields(entry, ("partition", "offset"))
        partition = _get_optional_object(entry, "partition")
        offset = _get_optional_object(entry, "offset")
        # A null partition is reported by the connector's code, which knows the expected form.
        found[json.dumps(partition, sort_keys=True)] = (partition, offset)  # type: ignore[assignment]
    return list(found.values())


def _get_optional_object(entry: Mapping[str, Any], name: str) -> dict[str, Any] | None:
    value = entry.get(name)
    if value is not None and not isinstance(value, dict):
        raise UnreadableBody(
            f"'{name}' must be a JSON object, not {java_hash_map_json.get_json_type_name(value)}"
        )
    return value


def _parse_json_with_text_numbers(data: bytes) -> Any:
    """Parse JSON, keeping each number as the text that the client sent."""
    return _parse_json(data, {"parse_int": str, "parse_float": str})


def _parse_json(data: bytes, hooks: Mapping[str, Any]) -> Any:
    if not data.strip():
        raise UnreadableBody("the request requires a body but has none")
    if json_limits.exceeds_json_value_limit(data, JSON_VALUES_MAX):
        raise BodyLimitError(
            f"the body has more than {JSON_VALUES_MAX:,} JSON values: send it in several requests"
        )
    try:
        return json.loads(
            data.decode("utf-8-sig"), parse_constant=_reject_nonfinite_constant, **hooks
        )
    except UnicodeDecodeError as error:
        raise UnreadableBody(f"the body is not valid UTF-8 at byte {error.start}") from error
    except json.JSONDecodeError as error:
        raise UnreadableBody(
            f"the body is not valid JSON: {error.msg}, line {error.lineno}, column {error.colno}"
        ) from None  # the original error contains the body, which may be secret
    except (ValueError, RecursionError) as error:
        raise UnreadableBody(f"the body is not valid JSON: {type(error).__name__}") from None


def _reject_nonfinite_constant(name: str) -> None:
    raise ValueError(name)


def _require_object(value: Any, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise UnreadableBody(f"expected {what}, not {java_hash_map_json.get_json_type_name(value)}")
    return value


def _reject_unknown_fields(given: Mapping[str, Any], known: tuple[str, ...]) -> None:
    unknown = [name for name in given if name not in known]
    if unknown:
        raise UnreadableBody(f'Unrecognized field "{unknown[0]}"; allowed: ' + ", ".join(known))


def _convert_values_to_strings(given: Mapping[str, Any], what: str) -> dict[str, str | None]:
    too_many = herder_requests.explain_too_many_config_keys(given)
    if too_many:
        raise BodyLimitError(f"{what} {too_many}")
    for name, value in given.items():
        if isinstance(value, dict | list):
            kind = java_hash_map_json.get_json_type_name(value)
            raise UnreadableBody(f"{what} has {kind} as '{name}'; expected a string")
    return {
        name: None if each is None else _convert_value_to_string(each)
        for name, each in given.items()
    }


def _convert_value_to_string(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
