"""The REST API put together: endpoints, and around them what every request goes through."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from urllib import parse

from starlette import applications, exceptions, types

from connect_runtime.base import clock
from connect_runtime.ports import herder, peers
from connect_runtime.rest import (
    access_log,
    asking,
    basic_auth,
    connectors,
    cors,
    errors,
    header_rules,
    internal,
    lifecycle,
    loggers,
    offsets,
    openapi,
    plugins,
    root,
    routing,
    settings,
)
from connect_runtime.system import log_levels


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What the API is built on. `peers` None: nothing is forwarded, as in standalone.

    `users`: passwords by name for basic authentication, None where there is none.
    """

    herder: herder.Herder
    peers: peers.Peers | None
    clock: clock.Clock
    levels: log_levels.LogLevels
    users: Mapping[str, str] | None = field(default=None, repr=False)
    deadlines: asking.Deadlines = field(default_factory=asking.Deadlines)


@dataclass(frozen=True, slots=True, kw_only=True)
class Apps:
    """What the listeners serve; `admin` None where `main` serves everything, or nobody."""

    main: types.ASGIApp
    admin: types.ASGIApp | None


def build(parts: Parts, configured: settings.RestSettings) -> Apps:
    """Raises `ConfigError` for `response.http.headers.config` and `access.control.*`."""
    served = public_endpoints(parts, configured)
    admin = admin_endpoints(parts)
    if configured.admin_listeners is None:
        return Apps(main=_main([*served, *admin], parts, configured), admin=None)
    alone = _application(admin, parts) if configured.admin_listeners else None
    return Apps(
        main=_main(served, parts, configured),
        admin=None if alone is None else _outer(_guarded(alone, parts), parts),
    )


def build_internal(by_namespace: Mapping[tuple[str, ...], Parts]) -> types.ASGIApp:
    """Only what workers ask each other, of several herders in one process (KIP-710).

    Each under its namespace: `("a", "b")` is at `/a/b/connectors/…`.
    """
    served: list[routing.Endpoint] = []
    for namespace, parts in by_namespace.items():
        prefix = "".join(f"/{parse.quote(each, safe='')}" for each in namespace)
        served += [
            dataclasses.replace(each, path=prefix + each.path) for each in internal_endpoints(parts)
        ]
    first = next(iter(by_namespace.values()))
    return _outer(_application(served, first), first)


def public_endpoints(parts: Parts, configured: settings.RestSettings) -> list[routing.Endpoint]:
    asks = _asking(parts)
    served = root.Root(
        parts.herder, identity=configured.identity, deadlines=parts.deadlines
    ).endpoints()
    served += connectors.Connectors(parts.herder, asks=asks, configured=configured).endpoints()
    served += lifecycle.Lifecycle(parts.herder, asks=asks).endpoints()
    served += offsets.Offsets(asks=asks).endpoints()
    served += plugins.Plugins(parts.herder, asks=asks).endpoints()
    served += openapi.Document(configured.identity).endpoints()
    return served + internal_endpoints(parts)


def internal_endpoints(parts: Parts) -> list[routing.Endpoint]:
    return internal.Internal(parts.herder, asks=_asking(parts)).endpoints()


def admin_endpoints(parts: Parts) -> list[routing.Endpoint]:
    return loggers.Loggers(parts.herder, asks=_asking(parts), levels=parts.levels).endpoints()


def _asking(parts: Parts) -> asking.Asking:
    return asking.Asking(parts.herder, among=parts.peers, deadlines=parts.deadlines)


def _main(
    served: Sequence[routing.Endpoint], parts: Parts, configured: settings.RestSettings
) -> types.ASGIApp:
    app = _guarded(_application(served, parts), parts)
    if configured.access.origins.strip():
        app = cors.Cors(app, access=configured.access)
    rules = header_rules.parse(configured.response_headers)
    if rules:
        app = header_rules.HeaderRules(app, rules=rules, wall_ms=parts.clock.wall_ms)
    return _outer(app, parts)


def _application(served: Sequence[routing.Endpoint], parts: Parts) -> types.ASGIApp:
    return applications.Starlette(
        routes=routing.routes(served, body_timeout_s=parts.deadlines.request_s),
        exception_handlers={exceptions.HTTPException: errors.on_framework_error},
    )


def _guarded(app: types.ASGIApp, parts: Parts) -> types.ASGIApp:
    return app if parts.users is None else basic_auth.BasicAuth(app, users=parts.users)


def _outer(app: types.ASGIApp, parts: Parts) -> types.ASGIApp:
    return access_log.AccessLog(routing.SentPaths(app), clock=parts.clock)
