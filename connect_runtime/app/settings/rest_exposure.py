"""Warns of REST listeners that the network reaches without a login, or without TLS."""

from __future__ import annotations

import ipaddress
import ssl
from collections.abc import Sequence

from connect_runtime.app.settings import account as accounts
from connect_runtime.app.settings import rest_reader
from connect_runtime.rest import https as rest_https
from connect_runtime.rest import settings as rest_settings

_LISTENERS, _ADMIN = "listeners", "admin.listeners"


def warn(account: accounts.Account, rest: rest_reader.Rest, *, in_group: bool) -> None:
    """One warning for each of `listeners` and `admin.listeners`. `in_group`: other workers must
    reach this one."""
    if account.wrong & {_LISTENERS, _ADMIN}:
        return
    has_users = bool(rest.users)
    found = rest.settings
    _warn(account, _LISTENERS, found.listeners, rest.https, has_users=has_users)
    _warn(account, _ADMIN, found.admin_listeners or (), rest.admin_https, has_users=has_users)
    if in_group and _LISTENERS not in account.values:
        account.warn(
            _LISTENERS,
            f"is not set: the REST API listens on {found.listeners[0]}, which other hosts cannot"
            " reach. To run a group on several hosts, set listeners=https://HOST:PORT and a login"
            " (rest.extension.classes)",
        )


def _warn(
    account: accounts.Account,
    key: str,
    listeners: Sequence[rest_settings.Listener],
    https: rest_https.Https | None,
    *,
    has_users: bool,
) -> None:
    beyond = [each for each in listeners if not is_loopback(each.host)]
    anybody = [each for each in beyond if not has_users and not _asks_certificates(each, https)]
    if anybody:
        account.warn(
            key,
            f"OPEN TO THE NETWORK WITHOUT AUTHENTICATION at {_told(anybody)}: anyone who can reach"
            " it can run connectors with this worker's rights on Kafka and on this host. Set"
            f" rest.extension.classes={rest_settings.BASIC_AUTH.rpartition('.')[2]} with an https"
            f" listener, or require client certificates ({key}.https.ssl.client.auth=required), or"
            f" listen on this host only ({key}=http://127.0.0.1:PORT)",
        )
    plain = [each for each in beyond if has_users and each.scheme == "http"]
    if plain:
        account.warn(
            key,
            f"passwords of the REST API's users go over the network unencrypted at {_told(plain)}:"
            " use an https listener",
        )


def _asks_certificates(listener: rest_settings.Listener, https: rest_https.Https | None) -> bool:
    return (
        listener.scheme == "https"
        and https is not None
        and https.server.verify_mode is ssl.CERT_REQUIRED
    )


def is_loopback(host: str) -> bool:
    """Is a listener with this host reached from this machine alone? "" is every interface."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _told(listeners: Sequence[rest_settings.Listener]) -> str:
    """Addresses as people search for them."""
    return ", ".join(
        str(each) if each.host else f"{each.scheme}://0.0.0.0:{each.port} (every interface)"
        for each in listeners
    )
