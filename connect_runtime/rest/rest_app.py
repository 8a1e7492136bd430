"""Builds the ASGI applications of the REST API from resources and middleware."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from starlette import applications, datastructures, exceptions, types
from starlette import routing as starlette_routing

from connect_runtime.base.clock_and_deadline import Clock
from connect_runtime.herder import session_keys
from connect_runtime.herder.herder_interface import Herder
from connect_runtime.herder.requests_to_other_workers import PeerClient
from connect_runtime.herder.session_keys import SessionKeySettings
from connect_runtime.rest import (
    cors,
    endpoint_routing,
    host_and_origin_middleware,
    http_request,
    response_headers,
    rest_errors,
)
from connect_runtime.rest.access_log import AccessLogMiddleware
from connect_runtime.rest.basic_auth import BasicAuthMiddleware
from connect_runtime.rest.connector_plugins_resource import ConnectorPluginsResource
from connect_runtime.rest.connectors_resource import (
    ConnectorLifecycleResource,
    ConnectorOffsetsResource,
    ConnectorsResource,
)
from connect_runtime.rest.cors import CorsMiddleware
from connect_runtime.rest.endpoint_routing import Endpoint, RawPathMiddleware
from connect_runtime.rest.host_and_origin_middleware import HostCheckMiddleware
from connect_runtime.rest.internal_connect_resource import (
    InternalConnectResource,
    SignatureMiddleware,
)
from connect_runtime.rest.logging_resource import LoggingResource
from connect_runtime.rest.openapi import OpenApiResource
from connect_runtime.rest.request_forwarding import HerderClient, RestDeadlines
from connect_runtime.rest.response_headers import ResponseHeadersMiddleware
from connect_runtime.rest.rest_settings import RestSettings
from connect_runtime.rest.root_resource import RootResource
from connect_runtime.system.log_levels import LogLevels


@dataclass(frozen=True, slots=True, kw_only=True)
class RestDependencies:
    """Dependencies of the REST API that the worker provides."""

    herder: Herder
    peers: PeerClient | None
    """Client for requests to other workers. If None, no requests are forwarded, as in standalone
    mode."""
    clock: Clock
    levels: LogLevels
    users: Mapping[str, str] | None = field(default=None, repr=False)
    """Password of each user for basic authentication; None if basic authentication is disabled."""
    deadlines: RestDeadlines = field(default_factory=RestDeadlines)


@dataclass(frozen=True, slots=True, kw_only=True)
class RestApplications:
    """ASGI applications for the main listeners and the admin listeners."""

    main: types.ASGIApp
    admin: types.ASGIApp | None
    """Application for the admin listeners; None if `main` serves the admin endpoints or they are
    disabled."""


def build_applications(parts: RestDependencies, configured: RestSettings) -> RestApplications:
    """Build the ASGI applications of the REST API. Raises `ConfigError` if
    `response.http.headers.config` or `access.control.*` is invalid."""
    served = list_public_endpoints(parts, configured)
    admin = list_admin_endpoints(parts)
    if configured.admin_listeners is None:
        return RestApplications(
            main=_build_main_application([*served, *admin], parts, configured), admin=None
        )
    alone = _build_application(admin, parts) if configured.admin_listeners else None
    return RestApplications(
        main=_build_main_application(served, parts, configured),
        admin=None
        if alone is None
        else _add_access_log(_add_host_check(_add_basic_auth(alone, parts), configured), parts),
    )


def build_internal_application(
    parts: RestDependencies,
    configured: RestSettings,
    keys: SessionKeySettings,
    *,
    receiver: str,
    must_be_signed: bool,
) -> types.ASGIApp:
    """Build the application for requests between workers: Java's two internal requests, and
    forwarded requests.

    The signature must cover the whole request. Only while a Java worker is in the group, Java's two
    internal requests are also accepted with Java's signature, which covers only the body.

    `receiver` is the URL that this worker advertises and that senders include in their signatures.
    If `must_be_signed` is true, unsigned internal requests are rejected even while the group's
    protocol does not sign requests.
    """
    within = SignatureMiddleware(
        _build_application(list_public_endpoints(parts, configured), parts),
        herder=parts.herder,
        receiver=receiver,
        keys=keys,
        clock=parts.clock,
        body_timeout_s=parts.deadlines.request_s,
    )
    own = list_internal_endpoints(parts, must_be_signed=must_be_signed)
    served = endpoint_routing.build_routes(own, body_timeout_s=parts.deadlines.request_s)
    return _add_access_log(_JavaSignedRequestRouter(served, within, parts.herder), parts)


class _JavaSignedRequestRouter:
    """ASGI application for requests between workers. While a Java worker is in the group, the
    routes in `served` get the internal requests that Java workers have signed. `otherwise` gets all
    other requests.

    Java's signature covers only the body, so it can be replayed to other workers and connectors.
    """

    def __init__(
        self,
        served: list[starlette_routing.Route],
        otherwise: types.ASGIApp,
        herder: Herder,
    ) -> None:
        self._served = served
        self._otherwise = otherwise
        self._herder = herder

    async def __call__(self, scope: types.Scope, receive: types.Receive, send: types.Send) -> None:
        scope[http_request.IS_UNVERIFIED_SCOPE_KEY] = True
        must_be_signed_whole = (
            self._herder.signs_whole_requests()
            or session_keys.NONCE_HEADER in datastructures.Headers(scope=scope)
        )
        for route in () if must_be_signed_whole else self._served:
            match, child = route.matches(scope)
            if match is starlette_routing.Match.FULL:
                scope.update(child)
                await route.handle(scope, receive, send)
                return
        await self._otherwise(scope, receive, send)


def list_public_endpoints(parts: RestDependencies, configured: RestSettings) -> list[Endpoint]:
    asks = _create_herder_client(parts)
    served = RootResource(
        parts.herder, identity=configured.identity, deadlines=parts.deadlines
    ).list_endpoints()
    served += ConnectorsResource(parts.herder, client=asks, settings=configured).list_endpoints()
    served += ConnectorLifecycleResource(parts.herder, client=asks).list_endpoints()
    served += ConnectorOffsetsResource(client=asks).list_endpoints()
    served += ConnectorPluginsResource(parts.herder, client=asks).list_endpoints()
    served += OpenApiResource(configured.identity).list_endpoints()
    return served + list_internal_endpoints(parts)


def list_internal_endpoints(
    parts: RestDependencies, *, must_be_signed: bool = False
) -> list[Endpoint]:
    return InternalConnectResource(
        parts.herder, client=_create_herder_client(parts), must_be_signed=must_be_signed
    ).list_endpoints()


def list_admin_endpoints(parts: RestDependencies) -> list[Endpoint]:
    return LoggingResource(
        parts.herder, client=_create_herder_client(parts), levels=parts.levels
    ).list_endpoints()


def _create_herder_client(parts: RestDependencies) -> HerderClient:
    return HerderClient(parts.herder, peers=parts.peers, deadlines=parts.deadlines)


def _build_main_application(
    served: Sequence[Endpoint], parts: RestDependencies, configured: RestSettings
) -> types.ASGIApp:
    app = _add_basic_auth(_build_application(served, parts), parts)
    app = _add_host_check(app, configured)
    if configured.access.origins.strip():
        app = CorsMiddleware(app, access=configured.access)
    rules = response_headers.parse_header_rules(configured.response_headers)
    if rules:
        app = ResponseHeadersMiddleware(app, rules=rules, wall_ms=parts.clock.wall_ms)
    return _add_access_log(app, parts)


def _build_application(served: Sequence[Endpoint], parts: RestDependencies) -> types.ASGIApp:
    return applications.Starlette(
        routes=endpoint_routing.build_routes(served, body_timeout_s=parts.deadlines.request_s),
        exception_handlers={exceptions.HTTPException: rest_errors.handle_framework_error},
    )


def _add_basic_auth(app: types.ASGIApp, parts: RestDependencies) -> types.ASGIApp:
    if parts.users is None:
        return app
    return BasicAuthMiddleware(
        app,
        users=parts.users,
        signs_internal_requests=parts.herder.signs_internal_requests,
    )


def _add_host_check(app: types.ASGIApp, configured: RestSettings) -> types.ASGIApp:
    return HostCheckMiddleware(
        app,
        hosts=host_and_origin_middleware.collect_allowed_hosts(configured),
        allows_origin=cors.build_origin_check(configured.access),
    )


def _add_access_log(app: types.ASGIApp, parts: RestDependencies) -> types.ASGIApp:
    # `RawPathMiddleware` copies the scope: within it, the access log sees what `app` adds.
    return RawPathMiddleware(AccessLogMiddleware(app, clock=parts.clock))
