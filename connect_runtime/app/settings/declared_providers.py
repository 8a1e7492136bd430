"""`config.providers` of a properties file: which placeholders mean what.

Kafka loads providers by their Java classes; the three that it ships have their like here.
"""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Mapping

from connect_runtime.adapters.config import properties_source, value_providers
from connect_runtime.app.settings import problems
from connect_runtime.base import user_pattern

KEY = "config.providers"
_PACKAGE = "org.apache.kafka.common.config.provider."
CLASSES: Mapping[str, value_providers.Kind] = {
    f"{_PACKAGE}DirectoryConfigProvider": value_providers.Kind.FOLDER,
    f"{_PACKAGE}EnvVarConfigProvider": value_providers.Kind.ENVIRONMENT,
    f"{_PACKAGE}FileConfigProvider": value_providers.Kind.FILE,
}
_PATHS = "param.allowed.paths"
_NAMES = "param.allowlist.pattern"

Tell = Callable[[problems.Problem], None]


def read(
    pairs: Mapping[str, properties_source.Property], *, refuse: Tell, warn: Tell
) -> Mapping[str, value_providers.Provider]:
    """The providers by name; mistakes go to `refuse`, keys without effect to `warn`."""
    listed = pairs.get(KEY)
    names = [name.strip() for name in listed.value.split(",")] if listed is not None else []
    found: dict[str, value_providers.Provider] = {}
    for name in filter(None, names):
        assert listed is not None
        provider = _provider(name, pairs, listed=listed, refuse=refuse)
        if provider is not None:
            found[name] = provider
    known = {KEY, *(f"{KEY}.{name}.{key}" for name in names for key in ("class", _PATHS, _NAMES))}
    for key, pair in pairs.items():
        if key.startswith(KEY) and key not in known:
            warn(problems.Problem(line=pair.line, key=key, text="has no effect: no such parameter"))
    return found


def _provider(
    name: str,
    pairs: Mapping[str, properties_source.Property],
    *,
    listed: properties_source.Property,
    refuse: Tell,
) -> value_providers.Provider | None:
    key = f"{KEY}.{name}.class"
    given = pairs.get(key)
    kind = CLASSES.get(given.value.strip()) if given is not None else None
    if kind is None:
        refuse(
            problems.Problem(
                line=listed.line if given is None else given.line,
                key=key,
                text="is missing" if given is None else "is no provider that is here",
                given=None if given is None else given.value,
                allowed=", ".join(sorted(CLASSES)),
            )
        )
        return None
    paths, pattern = pairs.get(f"{KEY}.{name}.{_PATHS}"), pairs.get(f"{KEY}.{name}.{_NAMES}")
    return value_providers.Provider(
        kind=kind, paths=_folders(paths, refuse), names=_expression(pattern, refuse)
    )


def _folders(pair: properties_source.Property | None, refuse: Tell) -> tuple[pathlib.Path, ...]:
    if pair is None:
        return ()
    found = [pathlib.Path(each.strip()) for each in pair.value.split(",") if each.strip()]
    if not all(each.is_absolute() for each in found):
        text = "needs absolute paths"
        refuse(problems.Problem(line=pair.line, key=pair.key, text=text, given=pair.value))
    return tuple(found)


def _expression(
    pair: properties_source.Property | None, refuse: Tell
) -> user_pattern.Pattern | None:
    if pair is None:
        return None
    try:
        return user_pattern.compile_pattern(pair.value.strip())
    except user_pattern.PatternError as error:
        text = f"cannot be used: {error.reason}"
        refuse(problems.Problem(line=pair.line, key=pair.key, text=text, given=pair.value))
        return None
