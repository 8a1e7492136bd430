"""The REST API put together: endpoints, and around them what every request goes through."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from starlette import applications, datastructures, exceptions, types
from starlette import routing as starlette_routing

from connect_runtime.base import clock
from connect_runtime.core.herder import session_keys
from connect_runtime.ports import herder, peers
from connect_runtime.rest import (
    access_log,
    asking,
    basic_auth,
    connectors,
    cors,
    errors,
    header_rules,
    host_check,
    internal,
    lifecycle,
    loggers,
    offsets,
    openapi,
    plugins,
    root,
    routing,
    settings,
    signed,
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
        admin=None
        if alone is None
        else _outer(_checked(_guarded(alone, parts), configured), parts),
    )


def build_internal(
    parts: Parts,
    configured: settings.RestSettings,
    keys: session_keys.KeySettings,
    *,
    receiver: str,
    must_be_signed: bool,
) -> types.ASGIApp:
    """Only what workers ask each other: Java's two requests, and what ours forward, signed whole.

    `receiver`: the URL that this worker advertises, which other workers sign. `must_be_signed`:
    refuse unsigned internal requests even while the group speaks a protocol that signs none.
    """
    within = signed.Signed(
        _application(public_endpoints(parts, configured), parts),
        of=parts.herder,
        receiver=receiver,
        keys=keys,
        clock=parts.clock,
        body_timeout_s=parts.deadlines.request_s,
    )
    own = internal_endpoints(parts, must_be_signed=must_be_signed)
    served = routing.routes(own, body_timeout_s=parts.deadlines.request_s)
    return _outer(_AsJavaSigns(served, within), parts)


class _AsJavaSigns:
    """ASGI: requests that match one of the routes go there unless they are signed whole (nodes of
    Java MirrorMaker 2 sign the body alone), all else to the other application."""

    def __init__(self, served: list[starlette_routing.Route], otherwise: types.ASGIApp) -> None:
        self._served = served
        self._otherwise = otherwise

    async def __call__(self, scope: types.Scope, receive: types.Receive, send: types.Send) -> None:
        is_signed_whole = session_keys.NONCE_HEADER in datastructures.Headers(scope=scope)
        for route in () if is_signed_whole else self._served:
            match, child = route.matches(scope)
            if match is starlette_routing.Match.FULL:
                scope.update(child)
                await route.handle(scope, receive, send)
                return
        await self._otherwise(scope, receive, send)


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


def internal_endpoints(parts: Parts, *, must_be_signed: bool = False) -> list[routing.Endpoint]:
    return internal.Internal(
        parts.herder, asks=_asking(parts), must_be_signed=must_be_signed
    ).endpoints()


def admin_endpoints(parts: Parts) -> list[routing.Endpoint]:
    return loggers.Loggers(parts.herder, asks=_asking(parts), levels=parts.levels).endpoints()


def _asking(parts: Parts) -> asking.Asking:
    return asking.Asking(parts.herder, among=parts.peers, deadlines=parts.deadlines)


def _main(
    served: Sequence[routing.Endpoint], parts: Parts, configured: settings.RestSettings
) -> types.ASGIApp:
    app = _guarded(_application(served, parts), parts)
    app = _checked(app, configured)
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
    if parts.users is None:
        return app
    return basic_auth.BasicAuth(
        app,
        users=parts.users,
        signs_internal_requests=parts.herder.signs_internal_requests,
    )


def _checked(app: types.ASGIApp, configured: settings.RestSettings) -> types.ASGIApp:
    return host_check.HostCheck(
        app,
        hosts=host_check.hosts(configured),
        allows_origin=cors.allows(configured.access),
    )


def _outer(app: types.ASGIApp, parts: Parts) -> types.ASGIApp:
    return access_log.AccessLog(routing.SentPaths(app), clock=parts.clock)
