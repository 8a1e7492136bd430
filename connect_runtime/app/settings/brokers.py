"""How a worker reaches its brokers: for the clients that it has itself, and for its group."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from connect_runtime.app.settings import account as accounts
from connect_runtime.base import errors
from connect_runtime.core.task import client_settings as plans
from connect_runtime.kafka_client import access as kafka_access
from connect_runtime.wire.codec import security_settings, tls_settings
from connect_runtime.wire.connection import client_properties, security
from connect_runtime.wire.connection import settings as connection_settings

_CLIENT_AUTH = "ssl.client.auth"
_PROTOCOL = "security.protocol"
_OF_SECURITY = ("security.", "sasl.", "ssl.")
_KINDS = plans.ClientKind


def properties(values: Mapping[str, str], *, rest_uses_ssl: bool) -> dict[str, str]:
    """Without what is meant for the REST API alone.

    `rest_uses_ssl`: its listeners are protected by the plain `ssl.*`, which say nothing of the
    brokers then unless the protocol does.
    """
    uses_tls = values.get(_PROTOCOL, "").strip().upper().endswith("SSL")
    drops = rest_uses_ssl and not uses_tls
    return {
        key: value
        for key, value in values.items()
        if key != _CLIENT_AUTH and not (drops and key.startswith("ssl."))
    }


def judge_security(
    account: accounts.Account, values: Mapping[str, str], *, files: tls_settings.Files
) -> security_settings.Security | None:
    """None where it is no good, and then the account knows why."""
    parsed = security_settings.parse(values, files=files)
    for each in parsed.errors:
        account.refuse(each.key, each.problem, allowed=each.allowed)
    if parsed.security is None:
        return None
    for broken in security.unusable(parsed.security):
        account.refuse(broken.store, broken.problem)
    return parsed.security


def judge_clients(
    account: accounts.Account, values: Mapping[str, str], *, files: tls_settings.Files
) -> None:
    """Of the clients of tasks: only a warning, for connectors may set what is missing."""
    for kind in _KINDS:
        own = {
            key.removeprefix(kind.value): value
            for key, value in values.items()
            if key.startswith(kind.value)
        }
        if not any(key.startswith(_OF_SECURITY) for key in own):
            continue
        inherited = values if kind is _KINDS.ADMIN else {}
        for each in security_settings.parse({**inherited, **own}, files=files).errors:
            text = f"{each.problem}; {each.allowed}: no task gets such a client as it stands"
            account.warn(f"{kind.value}{each.key}", text)


def access(
    account: accounts.Account, values: Mapping[str, str], *, files: tls_settings.Files
) -> kafka_access.Access | None:
    """To be asked once the security is found to be right. None: the account knows why."""
    try:
        return kafka_access.parse(values, files=files)
    except errors.FatalError as error:
        account.refuse("", str(error))
        return None


def connections(
    values: Mapping[str, str], found: Mapping[str, Any], safety: security_settings.Security
) -> connection_settings.ConnectionSettings:
    """From the properties of a worker in a group, as they are and parsed. Buffers are the system's
    own where they are not given: what Java takes instead is too little for long lines."""
    names = client_properties.NAMES.difference(client_properties.BUFFERS) | values.keys()
    return client_properties.settings(
        {name: str(found[name]) for name in names & client_properties.NAMES},
        bootstrap=tuple(found["bootstrap.servers"]),
        security=safety,
        client_id=found["client.id"],
    )
