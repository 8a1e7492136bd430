"""What a file makes of its flows' Connect workers, judged as on any worker that starts.

What is wrong is told at the line of the file that it comes from: of `clusters.yaml` in the sections
`worker` and `rest`, of `mm2.properties` at Java's keys.
"""

from __future__ import annotations

import dataclasses
import functools
import pathlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from connect_runtime.adapters.config import value_providers
from connect_runtime.adapters.plugins import discovery
from connect_runtime.api import errors
from connect_runtime.app.settings import distributed, internal_rest, problems, worker_reader
from connect_runtime.base import request_origin
from connect_runtime.core.task import worker_keys
from connect_runtime.ports import plugins
from connect_runtime.rest import host_check
from mm2.app.settings import mirror_maker_keys as keys
from mm2.app.settings import settings
from mm2.core.configs import dedicated

_ROLES = ("consumer.", "producer.", "admin.")
RESTART_MAX = 10
"""How often in a row something that fails is started again, unless the file says otherwise."""


def props(flat: settings.Flat, ends: dedicated.Ends) -> dict[str, str]:
    """Of the flow's worker, `${…}` filled in, without what acts on nothing here and is told where
    the file is read. Raises `ConfigError`."""
    found = dedicated.worker(flat.props, ends, resolve=flat.resolve)
    for key in (*keys.NOT_OF_WORKERS, keys.RESTART_MAX):
        found.pop(key, None)
    found.setdefault(keys.OVERRIDE_POLICY, keys.ALL_OVERRIDES)
    issuers = _issuers(flat)
    if issuers:
        found[worker_keys.OAUTH_URLS] = ",".join(issuers)
    return {key: value for key, value in found.items() if not _is_idle(key, found)}


def _issuers(flat: settings.Flat) -> list[str]:
    """All that the file names for its clusters and flows."""
    resolved = flat.resolve(flat.props)
    return sorted({value for key, value in resolved.items() if key.endswith(keys.ISSUER)} - {""})


def _is_idle(key: str, found: Mapping[str, str]) -> bool:
    """Does it ask for what is so anyway, or is it of a security that connections do not have?"""
    role = next((each for each in _ROLES if key.startswith(each)), "")
    name = key.removeprefix(role)
    if keys.is_as_here(name, found[key]):
        return True
    if not name.startswith(("ssl.", "sasl.")):
        return False
    plain = not (found.get(role + keys.PROTOCOL) or found.get(keys.PROTOCOL))
    return plain or name not in keys.CLIENT


def restart_max(flat: settings.Flat, ends: dedicated.Ends) -> int:
    """As in `restarts.Restarts`. Raises `ConfigError`, and `ValueError` for what is no number."""
    found = dedicated.worker(flat.props, ends, resolve=flat.resolve)
    given = found.get(keys.RESTART_MAX, str(RESTART_MAX)).strip()
    if not re.fullmatch(r"-1|[0-9]{1,9}", given):
        raise ValueError(given)
    return int(given)


def rest(flat: settings.Flat, source: worker_reader.Source) -> internal_rest.InternalRest | None:
    """How the nodes of a group reach each other; None: they do not. Raises `SettingsError`."""
    resolved = flat.resolve(flat.props)
    if resolved.get(dedicated.INTERNAL_REST, "false").strip().lower() != "true":
        return None
    return internal_rest.derived(resolved, source)


def hosts(flat: settings.Flat, source: worker_reader.Source) -> request_origin.AllowedHosts:
    """Under which host names this process may be asked, also where nodes do not reach each other.
    Raises `SettingsError`."""
    return host_check.hosts(internal_rest.derived(flat.resolve(flat.props), source).settings)


def source(
    file: str, *, environment: Mapping[str, str], folder: pathlib.Path | None = None
) -> worker_reader.Source:
    """Relative paths start at `folder`; None: where this process was started, as in Java."""
    return worker_reader.Source(
        file=file,
        folder=folder or pathlib.Path.cwd(),
        environment=environment,
        discover=_discovered,
    )


def mistakes(flat: settings.Flat, about: worker_reader.Source) -> list[problems.Problem]:
    """Of all flows that have a worker, each once; none where placeholders cannot be filled in."""
    try:
        flows = dedicated.flows(flat.resolve(flat.props))
    except errors.ConfigError:
        return []
    found = list(_told(flat, lambda: rest(flat, about), ("",)))
    for ends in flows:
        where = (f"{ends.target}.", "")
        made = functools.partial(distributed.derived, props(flat, ends), about)
        found += _told(flat, made, where)
        try:
            restart_max(flat, ends)
        except ValueError:
            found.append(
                _placed(
                    flat,
                    problems.Problem(
                        line=0,
                        key=keys.RESTART_MAX,
                        text="is not allowed",
                        allowed="a whole number, or -1: always",
                    ),
                    where,
                )
            )
    return list(dict.fromkeys(found))


def _told(
    flat: settings.Flat, made: Callable[[], object], where: Sequence[str]
) -> Iterator[problems.Problem]:
    try:
        made()
    except problems.SettingsError as error:
        yield from (_placed(flat, each, where) for each in error.problems)


def _placed(
    flat: settings.Flat, problem: problems.Problem, where: Sequence[str]
) -> problems.Problem:
    """`where` are beginnings of keys, the most specific first."""
    named = (prefix + problem.key for prefix in where)
    found = next((each for each in named if each in flat.places), None)
    if found is None:
        return problem
    line, key = flat.places[found]
    if value_providers.named(flat.props.get(found, "")):
        return problems.Problem(line=line, key=key, text="is not allowed")
    return dataclasses.replace(problem, line=line, key=key)


@functools.lru_cache(maxsize=8)
def _looked_up(folders: tuple[str, ...], file_paths: tuple[str, ...]) -> plugins.Plugins:
    return discovery.discover(folders, file_paths)


def _discovered(folders: Sequence[str], file_paths: Sequence[str]) -> plugins.Plugins:
    """Once for all workers of this process that name the same folders."""
    return _looked_up(tuple(folders), tuple(file_paths))
