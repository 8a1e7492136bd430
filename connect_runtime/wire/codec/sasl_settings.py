"""SASL as Java clients spell it: the mechanism, and who we are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from connect_runtime.wire.codec import (
    jaas,
    oauth_settings,
    sasl,
    setting_account,
    tls_settings,
    vendor_logins,
)

KEYS = frozenset({"sasl.mechanism", "sasl.jaas.config", *oauth_settings.KEYS})

_JAAS = "sasl.jaas.config"
_PACKAGE = "org.apache.kafka.common.security."
_MODULES = {sasl.PLAIN: ("plain", "PlainLoginModule")}
_MODULES |= dict.fromkeys(sasl.SCRAM_MECHANISMS, ("scram", "ScramLoginModule"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Sasl:
    """`username` is the client's id with OAUTHBEARER, for messages; `oauth` only there."""

    mechanism: str
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    oauth: oauth_settings.OAuth | None = None


def read(account: setting_account.Account, files: tls_settings.Files) -> Sasl:
    """The sasl.* properties of a client that uses SASL; mistakes are noted."""
    mechanism = account.get("sasl.mechanism", "GSSAPI").upper()
    if mechanism not in sasl.MECHANISMS:
        missing = "" if "sasl.mechanism" in account.properties else " (Java's default)"
        told = vendor_logins.MECHANISMS.get(mechanism)
        allowed = setting_account.one_of(sasl.MECHANISMS)
        allowed = f"{told}; {allowed}" if told else allowed
        account.error("sasl.mechanism", f"{mechanism}{missing} is not supported", allowed)
        return Sasl(mechanism=mechanism)
    if mechanism == sasl.OAUTHBEARER:
        oauth = oauth_settings.read(account, _oauth_options(account), files)
        return Sasl(mechanism=mechanism, username=oauth.client_id, oauth=oauth)
    for key in sorted(oauth_settings.KEYS & account.properties.keys()):
        advice = f"remove it, or set sasl.mechanism={sasl.OAUTHBEARER}"
        account.error(key, f"it has no effect with {mechanism}", advice)
    username, password = _credentials(account, mechanism)
    return Sasl(mechanism=mechanism, username=username, password=password)


def _oauth_options(account: setting_account.Account) -> Mapping[str, str]:
    """Of the login module, which may be left out where properties say everything."""
    if not account.get(_JAAS):
        return {}
    module = _module(account, oauth_settings.LOGIN_MODULE, form=oauth_settings.FORM)
    return {} if module is None else module.options


def _credentials(account: setting_account.Account, mechanism: str) -> tuple[str | None, str | None]:
    package, expected = _MODULES[mechanism]
    form = f'write {_PACKAGE}{package}.{expected} required username="…" password="…";'
    if not account.get(_JAAS):
        account.error(_JAAS, "it is missing", form)
        return None, None
    module = _module(account, expected, form=form)
    if module is None:
        return None, None
    missing = [name for name in ("username", "password") if name not in module.options]
    if missing:
        account.error(_JAAS, f"{' and '.join(missing)} missing", form)
    for name in sorted(module.options.keys() - {"username", "password"}):
        account.error(_JAAS, f"its option {name} is not supported", form)
    return module.options.get("username"), module.options.get("password")


def _module(
    account: setting_account.Account, expected: str, *, form: str
) -> jaas.LoginModule | None:
    try:
        module = jaas.parse(account.get(_JAAS))
    except jaas.JaasProblem as error:
        account.error(_JAAS, str(error), form)
        return None
    if module.simple_name == expected:
        return module
    told = vendor_logins.advice(module.class_name)
    problem = f"{module.simple_name} does not belong to this sasl.mechanism"
    account.error(_JAAS, problem, f"{told}; or {form}" if told else form)
    return None
