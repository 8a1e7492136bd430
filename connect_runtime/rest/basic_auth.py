"""HTTP basic authentication, as in Kafka Connect's BasicAuthSecurityRestExtension.

Users and passwords are read from a properties file, as in `PropertyFileLoginModule`. The two
internal requests between workers need no password if they are signed (KIP-507): the group must use
the protocol `sessioned`, and the signature must be valid. (Java accepts them under every protocol.)
Basic authentication does not encrypt passwords, so use it with https.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import re
from collections.abc import Callable, Mapping

from starlette import datastructures, responses, types

from connect_runtime.api.errors import ConfigError
from connect_runtime.herder import session_keys
from connect_runtime.protocol import jaas
from connect_runtime.protocol.jaas import JaasConfigError
from connect_runtime.rest import http_request
from connect_runtime.rest.http_request import RequestBodySlots

_JAAS_ENTRY = "KafkaConnect"
_LOGIN_MODULE = "PropertyFileLoginModule"
_JAAS_COMMENT = re.compile(r'"[^"]*+"?|//[^\n]*+|#[^\n]*+|/\*(?:[^*]++|\*(?!/))*+(?:\*/)?')
_JAAS_SECTION = re.compile(r"\bKafkaConnect\s*+\{")
_SEMICOLON = re.compile(r"\s*+;")

_INTERNAL_REQUESTS = (
    ("POST", re.compile(r"/connectors/[^/]+/tasks/?")),
    ("PUT", re.compile(r"/connectors/[^/]+/fence/?")),
)


def find_users_file(jaas_text: str) -> str:
    """Find the path of the users file in the text of a JAAS file
    (`java.security.auth.login.config`).

        KafkaConnect { ….PropertyFileLoginModule required file="/etc/connect/users.properties"; };

    Raises `ConfigError` if the `KafkaConnect` entry is missing or not supported.
    """
    plain = _JAAS_COMMENT.sub(lambda each: each[0] if each[0].startswith('"') else " ", jaas_text)
    entry = _extract_jaas_section(plain)
    if entry is None:
        raise ConfigError(
            f"basic authentication: the JAAS file has no entry {_JAAS_ENTRY} {{ … }};"
        )
    try:
        module = jaas.parse_jaas_config(entry.strip())
    except JaasConfigError as error:
        raise ConfigError(
            f"basic authentication, {_JAAS_ENTRY} entry of the JAAS file: {error}"
        ) from None
    if module.simple_name != _LOGIN_MODULE:
        raise ConfigError(
            f"basic authentication: {module.class_name} is not supported; use "
            f"{_LOGIN_MODULE},"
            " which reads users and passwords from a properties file"
        )
    file = module.options.get("file", "").strip()
    if not file:
        raise ConfigError(f"basic authentication: the option 'file' of {_LOGIN_MODULE} is missing")
    return file


def _extract_jaas_section(plain: str) -> str | None:
    """Return the text between the braces of the first complete `KafkaConnect` entry of a JAAS file;
    None if there is none."""
    at = 0
    while (found := _JAAS_SECTION.search(plain, at)) and (
        closing := plain.find("}", found.end())
    ) >= 0:
        at = closing + 1
        if _SEMICOLON.match(plain, at):
            return plain[found.end() : closing]
    return None


def parse_credentials(authorization: str | None) -> tuple[str, str] | None:
    """Parse user name and password from an `Authorization` header. Return None if it contains no
    valid credentials."""
    scheme, _, encoded = (authorization or "").partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        text = base64.b64decode(encoded.strip(), validate=True).decode("utf-8", "replace")
    except (binascii.Error, ValueError):
        return None
    user, colon, password = text.partition(":")
    return (user, password) if colon and user else None


class BasicAuthMiddleware:
    """ASGI middleware that responds with 401 to requests without valid credentials. If no users are
    configured, all requests are accepted."""

    def __init__(
        self,
        app: types.ASGIApp,
        *,
        users: Mapping[str, str],
        signs_internal_requests: Callable[[], bool] = lambda: False,
    ) -> None:
        """Create the middleware. `signs_internal_requests` returns True if the group signs internal
        requests (see `Herder`). If it returns False, internal requests need a password like all
        other requests."""
        self._app = app
        self._users = users
        self._signs_internal_requests = signs_internal_requests
        self._unverified_slots = RequestBodySlots()
        """Body slots for requests without a password. Such requests have their own slots, so that
        they cannot occupy those of authenticated users."""

    async def __call__(self, scope: types.Scope, receive: types.Receive, send: types.Send) -> None:
        if scope["type"] != "http" or not self._users or self._has_valid_password(scope):
            await self._app(scope, receive, send)
            return
        if self._has_internal_request_signature(scope):
            scope[http_request.MUST_BE_SIGNED_SCOPE_KEY] = True  # the endpoint verifies it
            scope[http_request.IS_UNVERIFIED_SCOPE_KEY] = True
            scope[http_request.BODY_SLOTS_SCOPE_KEY] = self._unverified_slots
            await self._app(scope, receive, send)
            return
        refusal = responses.PlainTextResponse("User cannot access the resource.", status_code=401)
        await refusal(scope, receive, send)

    def _has_valid_password(self, scope: types.Scope) -> bool:
        given = parse_credentials(datastructures.Headers(scope=scope).get("authorization"))
        if given is None:
            return False
        user, password = given
        expected = self._users.get(user)
        # Compare even for an unknown user, so that timing does not reveal which users exist.
        same = hmac.compare_digest((expected or "").encode(), password.encode())
        return same and expected is not None

    def _has_internal_request_signature(self, scope: types.Scope) -> bool:
        return (
            _is_internal_request(scope["method"], scope["path"])
            and session_keys.SIGNATURE_HEADER in datastructures.Headers(scope=scope)
            and self._signs_internal_requests()
        )


def _is_internal_request(method: str, path: str) -> bool:
    return any(method == each and pattern.fullmatch(path) for each, pattern in _INTERNAL_REQUESTS)
