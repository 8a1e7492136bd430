"""Log lines for what operators do to running flows: who asked, for what, and what was answered.

What was done stands in the flow's Connect group's topics; who did it stands in this log alone.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping
from urllib import parse

from connect_runtime.rest import change_log
from mm2.app import flow_plan
from mm2.core.configs import live, own_keys

_REFUSED = 400
_log = logging.getLogger(__name__)


def log(operator: str, action: str, *, flow: str = "") -> None:
    """`operator root (uid 0, pid 17): pause east->west`."""
    _log.info("operator %s: %s", operator, action, extra={"operator": operator, "flow": flow})


def log_change(change: change_log.Change) -> None:
    """A request over REST. What was refused is logged as a warning, with the status."""
    flow, action = describe(change)
    who = change.user or change.client or "unknown"
    fields = {"operator": who, "flow": flow}
    if 0 < change.status < _REFUSED:
        _log.info("operator %s: %s", who, action, extra=fields)
    else:
        told = f"refused with {change.status}" if change.status else "not answered"
        _log.warning("operator %s: %s: %s", who, action, told, extra=fields)


def describe(change: change_log.Change) -> tuple[str, str]:
    """The flow, and what is asked for in the words of `mm2`'s commands; else the request itself."""
    names = [parse.unquote(each) for each in change.path.split("/")[1:]]
    if len(names) < 4 or names[2] != "connectors":
        return "", f"{change.method} {change.path}"
    flow, connector, rest = f"{names[0]}->{names[1]}", names[3], names[4:]
    what = flow if connector == flow_plan.SOURCE else f"{connector} of {flow}"
    match change.method, rest:
        case ("PUT", ["pause" | "resume" | "stop" as verb]):
            return flow, f"{verb} {what}"
        case ("POST", ["restart"]):
            return flow, f"restart {what}"
        case ("POST", ["tasks", number, "restart"]):
            return flow, f"restart task {number} of {what}"
        case ("PATCH", ["config"]):
            return flow, "; ".join(_set(what, change.body)) or f"change nothing of {what}"
        case ("PUT", ["config"]):
            return flow, f"configure {what}"
        case ("PATCH", ["offsets"]):
            return flow, f"alter the offsets of {what}"
        case ("DELETE", ["offsets"]):
            return flow, f"reset the offsets of {what}"
        case ("DELETE", []):
            return flow, f"delete {what}"
    return flow, f"{change.method} {change.path}"


def _set(what: str, body: bytes) -> Iterator[str]:
    """Values only of what operators set while a flow runs: others may be secrets."""
    try:
        found = json.loads(body)
    except ValueError:
        found = None
    if not isinstance(found, Mapping):
        yield f"change the configuration of {what}"
        return
    others = []
    for key, value in sorted(found.items()):
        if key == own_keys.LIVE_THROTTLE:
            yield f"throttle {what}: {_limit(value)}"
        elif key.startswith(own_keys.LIVE_TOPIC_THROTTLE):
            topic = key.removeprefix(own_keys.LIVE_TOPIC_THROTTLE)
            yield f"throttle topic {topic} of {what}: {_limit(value)}"
        elif key.startswith(own_keys.LIVE_PAUSED_TOPIC):
            topic = key.removeprefix(own_keys.LIVE_PAUSED_TOPIC)
            yield f"{'resume' if value is None else 'pause'} topic {topic} of {what}"
        elif live.is_live(key):
            yield f"set {key}={value} of {what}"
        else:
            others.append(key)
    if others:
        yield f"change {', '.join(others)} of {what}"


def _limit(value: object) -> str:
    return "as configured" if value is None else str(value)
