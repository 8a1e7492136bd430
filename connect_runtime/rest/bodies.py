"""What is asked, read from JSON as Java's Jackson reads it into Apache's REST entities.

A configuration is a map of strings: numbers and booleans become their text, null stays. Problems
are told without repeating values, which may be secret.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from connect_runtime.api import config_types
from connect_runtime.core.state import cluster_config, json_bytes
from connect_runtime.core.task import connector_keys

_INITIAL_STATES = {
    "RUNNING": cluster_config.TargetState.STARTED,
    "PAUSED": cluster_config.TargetState.PAUSED,
    "STOPPED": cluster_config.TargetState.STOPPED,
}


class Unreadable(Exception):
    """The body is not what this request takes; the message says what it takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Creation:
    """A connector to be made. `initial_state` None: running."""

    name: str
    config: dict[str, str | None] = field(repr=False)
    initial_state: cluster_config.TargetState | None = None

    def to_json(self) -> dict[str, Any]:
        """The body that another worker reads back as this."""
        states = {state: text for text, state in _INITIAL_STATES.items()}
        state = None if self.initial_state is None else states[self.initial_state]
        return {"name": self.name, "config": self.config, "initial_state": state}


Offset = tuple[Mapping[str, object], "Mapping[str, object] | None"]


def config(data: bytes) -> dict[str, str | None]:
    """A connector's configuration, or another map of strings. Raises `Unreadable`."""
    return _strings(_object(_texts(data), "a JSON object of strings"), "the configuration")


def configs(data: bytes) -> list[dict[str, str | None]]:
    """The configurations of a connector's tasks. Raises `Unreadable`."""
    value = _texts(data)
    if not isinstance(value, list):
        raise Unreadable(f"a JSON array of objects was expected, not {json_bytes.kind(value)}")
    return [_strings(_object(each, "JSON objects"), "the configuration") for each in value]


def creation(data: bytes, *, others: bool = False) -> Creation:
    """The body of `POST /connectors`; the name without space around it. Raises `Unreadable`.

    `others`: fields that are unknown are passed over.
    """
    given = _object(_texts(data), 'a JSON object {"name": …, "config": {…}}')
    if not others:
        _only(given, ("name", "config", "initial_state"))
    name = given.get("name")
    if isinstance(name, dict | list):
        raise Unreadable(f"'name' is a string, not {json_bytes.kind(name)}")
    wanted = _object(given.get("config"), "'config', a JSON object of strings,")
    name = "" if name is None else _text(name).strip(config_types.JAVA_BLANKS)
    refused = connector_keys.refused_name(name)
    if refused:
        raise Unreadable(f"'name' {refused}")
    return Creation(
        name=name,
        config=_strings(wanted, "'config'"),
        initial_state=_initial_state(given.get("initial_state")),
    )


def _initial_state(given: Any) -> cluster_config.TargetState | None:
    if given is None:
        return None
    state = _INITIAL_STATES.get(given.upper()) if isinstance(given, str) else None
    if state is None:
        raise Unreadable(f"'initial_state' is none of {', '.join(_INITIAL_STATES)}")
    return state


def offsets(data: bytes) -> list[Offset]:
    """Partitions with their new offsets, None to forget one; empty where there are none.

    Of a partition that is named twice the last offset counts. Raises `Unreadable`.
    """
    given = _object(_parse(data, {}), 'a JSON object {"offsets": […]}')
    _only(given, ("offsets",))
    entries = given.get("offsets")
    if entries is None:
        return []
    if not isinstance(entries, list):
        raise Unreadable(f"'offsets' is an array, not {json_bytes.kind(entries)}")
    found: dict[str, Offset] = {}
    for each in entries:
        entry = _object(each, "an entry of 'offsets', a JSON object,")
        _only(entry, ("partition", "offset"))
        partition = _optional_object(entry, "partition")
        offset = _optional_object(entry, "offset")
        # A partition of null is told by who knows the connector, which says what it should be.
        found[json.dumps(partition, sort_keys=True)] = (partition, offset)  # type: ignore[assignment]
    return list(found.values())


def _optional_object(entry: Mapping[str, Any], name: str) -> dict[str, Any] | None:
    value = entry.get(name)
    if value is not None and not isinstance(value, dict):
        raise Unreadable(f"'{name}' is a JSON object, not {json_bytes.kind(value)}")
    return value


def _texts(data: bytes) -> Any:
    """As parsed, with numbers as their text."""
    return _parse(data, {"parse_int": str, "parse_float": str})


def _parse(data: bytes, hooks: Mapping[str, Any]) -> Any:
    if not data.strip():
        raise Unreadable("the request has no body, and needs one")
    try:
        return json.loads(data.decode("utf-8-sig"), parse_constant=_no_constant, **hooks)
    except UnicodeDecodeError as error:
        raise Unreadable(f"the body is no UTF-8, from byte {error.start} on") from error
    except json.JSONDecodeError as error:
        raise Unreadable(
            f"the body is no JSON: {error.msg}, line {error.lineno}, column {error.colno}"
        ) from None  # its text may be secret, and is in that error
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"the body is no JSON: {type(error).__name__}") from None


def _no_constant(name: str) -> None:
    raise ValueError(name)


def _object(value: Any, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Unreadable(f"{what} was expected, not {json_bytes.kind(value)}")
    return value


def _only(given: Mapping[str, Any], known: tuple[str, ...]) -> None:
    unknown = [name for name in given if name not in known]
    if unknown:
        raise Unreadable(
            f'Unrecognized field "{unknown[0]}"; there {"is" if len(known) == 1 else "are"} '
            + ", ".join(known)
        )


def _strings(given: Mapping[str, Any], what: str) -> dict[str, str | None]:
    for name, value in given.items():
        if isinstance(value, dict | list):
            kind = json_bytes.kind(value)
            raise Unreadable(f"{what} has {kind} as '{name}', where a string belongs")
    return {name: None if each is None else _text(each) for name, each in given.items()}


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
