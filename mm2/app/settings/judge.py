"""What the connectors themselves say of the configurations that a file makes of them.

The readers of this folder judge what they know. Here the connectors validate the rest, as on any
Connect worker; what they refuse is told at the line of the file that it comes from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from connect_runtime.adapters.config import value_providers
from connect_runtime.api import config_def, errors
from connect_runtime.app.settings import problems
from mm2.app.settings import settings
from mm2.core.configs import connector_configs, dedicated, java_classes
from mm2.core.copy import record_transforms

_VALIDATE: Mapping[str, Callable[..., list[config_def.ConfigValue]]] = {
    "MirrorSourceConnector": connector_configs.validate_source,
    "MirrorHeartbeatConnector": connector_configs.validate_heartbeat,
    "MirrorCheckpointConnector": connector_configs.validate_checkpoint,
}


def mistakes(flat: settings.Flat) -> list[problems.Problem]:
    """Of all connectors of all flows that have a worker, each once."""
    try:
        resolved = flat.resolve(flat.props)
    except errors.ConfigError as error:
        return [problems.Problem(line=0, key="", text=str(error))]
    found = (
        problem
        for ends in dedicated.flows(resolved)
        for name, config in dedicated.connectors(flat.props, ends).items()
        if dedicated.can_run(name, config)
        for problem in _of_connector(flat, ends, name=name, config=config)
    )
    return list(dict.fromkeys(found))


def _of_connector(
    flat: settings.Flat, ends: dedicated.Ends, *, name: str, config: Mapping[str, str]
) -> Iterator[problems.Problem]:
    try:
        filled = flat.resolve(config)
    except errors.ConfigError as error:
        yield problems.Problem(line=0, key=str(ends), text=str(error))
        return
    for value in _VALIDATE[name](filled, load=java_classes.load_and_import):
        if not value.error_messages:
            continue
        line, key = _place(flat, ends, value.name)
        secret = bool(value_providers.named(config.get(value.name, "")))
        text = "is not allowed" if secret else "; ".join(value.error_messages)
        yield problems.Problem(line=line, key=key, text=text)


def _place(flat: settings.Flat, ends: dedicated.Ends, key: str) -> tuple[int, str]:
    """Where the value stands, or would: the most specific place counts."""
    candidates = [f"{ends}.{key}", key]
    for side, alias in (("source.", ends.source), ("target.", ends.target)):
        if key.startswith(side):
            bare = key.removeprefix(side)
            candidates += [f"{alias}.{bare}", f"{alias}.{bare.removeprefix('cluster.')}"]
    if key.startswith(record_transforms.FAMILIES):  # one that is missing: who asked for it
        listed = key.partition(".")[0]
        candidates += [f"{ends}.{listed}", listed]
    found = next((flat.places[each] for each in candidates if each in flat.places), None)
    return found or (0, f"{ends}: {key}")
