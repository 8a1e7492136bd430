"""Requests between workers: the two internal endpoints, and verification of signed requests.

Java workers sign the body of the two internal requests with the group's session key (KIP-507). On a
listener that is reserved for workers, a worker also forwards user requests, usually to the leader.
It signs each of these requests as a whole: method, path, receiver, body and sending time. Each
signature is accepted only once. The response is signed, too.
"""

from __future__ import annotations

import hmac
from http import HTTPStatus

from starlette import datastructures, requests, responses, types

from connect_runtime.base.clock_and_deadline import Clock
from connect_runtime.herder import requests_to_other_workers, session_keys
from connect_runtime.herder.herder_interface import ConnectorType, Herder
from connect_runtime.herder.herder_requests import FenceZombieTasks, PutTaskConfigs
from connect_runtime.herder.session_keys import (
    ReplayGuard,
    SessionKeySettings,
    SignatureCheck,
    SignatureInvalid,
    SignedUserRequest,
)
from connect_runtime.rest import http_request, request_bodies, rest_errors, rest_responses
from connect_runtime.rest.endpoint_routing import Endpoint
from connect_runtime.rest.http_request import RestRequest
from connect_runtime.rest.request_forwarding import ForwardedRequest, HerderClient
from connect_runtime.rest.rest_errors import RestError
from connect_runtime.storage.cluster_config_state import SessionKey

MAX_TASK_CONFIGS_BYTES = 4 * 1024 * 1024
"""Maximum size of the body of a request signed by a Java worker, which contains all task
configurations of one connector."""


class InternalConnectResource:
    """Handlers of the two internal endpoints, `POST …/tasks` and `PUT …/fence`; stateless."""

    def __init__(
        self, herder: Herder, *, client: HerderClient, must_be_signed: bool = False
    ) -> None:
        """Create the handlers. If `must_be_signed` is true, unsigned requests are rejected even if
        the group's protocol does not sign requests."""
        self._herder = herder
        self._asks = client
        self._must_be_signed = must_be_signed

    def list_endpoints(self) -> list[Endpoint]:
        one = "/connectors/{connector}"
        return [
            Endpoint("POST", f"{one}/tasks", self.put_task_configs),
            Endpoint("PUT", f"{one}/fence", self.fence_zombies),
        ]

    async def put_task_configs(self, request: RestRequest) -> responses.Response:
        data = await self._read_verified_body(request, bytes_max=MAX_TASK_CONFIGS_BYTES)
        configs = http_request.parse_body(request_bodies.parse_task_configs, data)
        name = request.connector
        await self._asks.submit_or_forward(
            PutTaskConfigs(connector=name, configs=configs),
            ForwardedRequest(
                method="POST",
                path=requests_to_other_workers.build_connector_path(name, "tasks"),
                body=configs,
            ),
            rest_request=request,
        )
        return rest_responses.build_empty_response(HTTPStatus.NO_CONTENT)

    async def fence_zombies(self, request: RestRequest) -> responses.Response:
        await self._read_verified_body(request, bytes_max=0)
        name = request.connector
        kind = self._herder.connector_type(self._herder.get_config_state().config(name))
        await self._asks.submit_or_forward(
            FenceZombieTasks(connector=name, is_source=kind is ConnectorType.SOURCE),
            ForwardedRequest(
                method="PUT", path=requests_to_other_workers.build_connector_path(name, "fence")
            ),
            rest_request=request,
        )
        return rest_responses.build_empty_response(HTTPStatus.NO_CONTENT)

    async def _read_verified_body(self, request: RestRequest, *, bytes_max: int) -> bytes:
        """Read the body and verify its signature. Java workers sign only the body.

        Unsigned requests are rejected before their body is read. `bytes_max` limits the size of
        bodies whose signature is not yet verified.
        """
        if request.is_signed:
            return await request.read_body()
        verdict = self._check_signature(b"", request)
        if isinstance(verdict, SignatureInvalid) and (
            verdict.status != session_keys.FORBIDDEN_STATUS
        ):
            raise RestError(verdict.status, verdict.message)
        data = await request.read_body(bytes_max=bytes_max)
        self._require_valid_signature(data, request)
        return data

    def _require_valid_signature(self, body: bytes, request: RestRequest) -> None:
        verdict = self._check_signature(body, request)
        if isinstance(verdict, SignatureInvalid):
            raise RestError(verdict.status, verdict.message)

    def _check_signature(self, body: bytes, request: RestRequest) -> SignatureCheck:
        return self._herder.verify_request_signature(
            body, request.headers, must_be_signed=request.must_be_signed or self._must_be_signed
        )


class SignatureMiddleware:
    """ASGI middleware that verifies signed requests from workers and signs the responses. Unsigned
    requests get a 404 response.

    A response that rejects a signature is not signed, because the sender may not be a worker of the
    group.
    """

    def __init__(
        self,
        app: types.ASGIApp,
        *,
        herder: Herder,
        receiver: str,
        keys: SessionKeySettings,
        clock: Clock,
        body_timeout_s: float,
    ) -> None:
        """`receiver` is the URL that this worker advertises and that senders include in their
        signatures."""
        self._app = app
        self._herder = herder
        self._keys = keys
        self._clock = clock
        self._replays = ReplayGuard(receiver, started_ms=clock.wall_ms())
        """Detects replayed requests. Used only on the server's event loop."""
        self._body_timeout_s = body_timeout_s

    async def __call__(self, scope: types.Scope, receive: types.Receive, send: types.Send) -> None:
        key = self._herder.get_config_state().session_key
        try:
            signed = self._verify_request_head_signature(scope, key)
            body = await self._receive_signed_body(scope, receive, signed.digest)
        except Exception as error:  # noqa: BLE001 - as all handlers: it is answered
            await rest_errors.build_error_response(rest_errors.convert_to_rest_error(error))(
                scope, receive, send
            )
            return
        scope[http_request.IS_UNVERIFIED_SCOPE_KEY] = False
        given = False

        async def receive_verified_body() -> types.Message:
            nonlocal given
            if given:
                return await receive()
            given = True
            return {"type": "http.request", "body": body, "more_body": False}

        verified = {
            **scope,
            http_request.IS_SIGNED_SCOPE_KEY: True,
            http_request.BODY_SLOTS_SCOPE_KEY: None,
        }
        assert key is not None, "the signature was verified"
        await self._app(
            verified, receive_verified_body, _wrap_send_to_sign_response(send, key, signed.nonce)
        )

    def _verify_request_head_signature(
        self, scope: types.Scope, key: SessionKey | None
    ) -> SignedUserRequest:
        """Verify the signature of a request's head, and return the signed request.

        The body is not read before the head is verified.
        """
        headers = datastructures.Headers(scope=scope)
        if session_keys.SIGNATURE_HEADER not in headers:
            raise RestError(HTTPStatus.NOT_FOUND, "HTTP 404 Not Found")
        for name in session_keys.REQUEST_SIGNATURE_HEADERS:
            if len(headers.getlist(name)) > 1:
                raise RestError(
                    HTTPStatus.BAD_REQUEST, f"Forwarded request must have one header {name}"
                )
        query = scope.get("query_string", b"").decode("latin-1")
        target = f"{scope['path']}?{query}" if query else scope["path"]
        verdict = self._replays.verify_request(
            scope["method"],
            target,
            headers,
            key=key,
            settings=self._keys,
            wall_ms=self._clock.wall_ms(),
            now_s=self._clock.now_s(),
        )
        if isinstance(verdict, SignatureInvalid):
            raise RestError(verdict.status, verdict.message)
        return verdict

    async def _receive_signed_body(
        self, scope: types.Scope, receive: types.Receive, digest: str
    ) -> bytes:
        """Read the body without using a body slot, so that workers do not wait for unauthenticated
        clients."""
        request = requests.Request({**scope, http_request.BODY_SLOTS_SCOPE_KEY: None}, receive)
        body = await RestRequest(request, body_timeout_s=self._body_timeout_s).read_body()
        if not hmac.compare_digest(
            session_keys.compute_body_digest(body).encode(), digest.encode()
        ):
            raise RestError(
                HTTPStatus.FORBIDDEN,
                f"The body does not match the digest in the header {session_keys.BODY_HEADER}",
            )
        return body


def _wrap_send_to_sign_response(send: types.Send, key: SessionKey, nonce: str) -> types.Send:
    """Wrap the ASGI function `send`: buffer the response until it is complete, then add its
    signature and send it."""
    start: types.Message = {}
    body = bytearray()

    async def send_signed(message: types.Message) -> None:
        nonlocal start
        if message["type"] == "http.response.start":
            start = message
            return
        body.extend(message.get("body", b""))
        if message.get("more_body", False):
            return
        signature = session_keys.sign_response(
            key, nonce=nonce, status=start["status"], body=bytes(body)
        )
        header = (session_keys.RESPONSE_SIGNATURE_HEADER.lower().encode(), signature.encode())
        await send({**start, "headers": [*start["headers"], header]})
        await send({"type": "http.response.body", "body": bytes(body)})

    return send_signed
