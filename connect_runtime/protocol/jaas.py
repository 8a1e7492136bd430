"""Parses `sasl.jaas.config` as Java's JaasConfig does, and recognizes vendor login modules.

    <login module class> required|requisite|sufficient|optional  key=value key="va"lue" ... ;

Values may be quoted, with backslash escapes. Error messages never contain values, which may be
passwords. Vendor login modules and callback handlers obtain credentials from the vendor's service
with Java code. For each known class, the error message names a standard mechanism to use instead.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from connect_runtime.base.errors import FatalError

CONTROL_FLAGS = ("required", "requisite", "sufficient", "optional")

_JAAS_TOKEN = re.compile(
    r"""\s*(?:
        (?P<quoted>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
      | (?P<mark>[=;])
      | (?P<word>[^\s=;"']+)
    )""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}


class JaasConfigError(FatalError):
    """Raised for a malformed JAAS configuration. The message never contains option values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginModule:
    """One login module entry of a JAAS configuration."""

    class_name: str
    options: Mapping[str, str] = field(repr=False)
    """Options of the login module. They contain secrets and are excluded from the repr."""

    @property
    def simple_name(self) -> str:
        """Class name of the login module without its package."""
        return self.class_name.rpartition(".")[2]


def parse_jaas_config(text: str) -> LoginModule:
    """Parse a JAAS configuration with exactly one entry. Raises JaasConfigError if it is
    malformed."""
    tokens = _tokenize_jaas_config(text)
    if not tokens or tokens[-1] != (";", True):
        raise JaasConfigError("the entry must end with a semicolon")
    entry = tokens[:-1]
    if (";", True) in entry:
        raise JaasConfigError("the entry must contain exactly one login module and one semicolon")
    if len(entry) < 2 or entry[0][1] or entry[1][0].lower() not in CONTROL_FLAGS:
        raise JaasConfigError(
            f"the entry must start with a login module class and one of {', '.join(CONTROL_FLAGS)}"
        )
    return LoginModule(class_name=entry[0][0], options=_parse_module_options(entry[2:]))


def _parse_module_options(tokens: list[tuple[str, bool]]) -> dict[str, str]:
    options: dict[str, str] = {}
    if len(tokens) % 3:
        raise JaasConfigError('options must have the form key=value or key="value"')
    for index in range(0, len(tokens), 3):
        (key, key_is_mark), mark, (value, value_is_mark) = tokens[index : index + 3]
        if key_is_mark or mark != ("=", True) or value_is_mark:
            raise JaasConfigError('options must have the form key=value or key="value"')
        options[key] = value
    return options


def _tokenize_jaas_config(text: str) -> list[tuple[str, bool]]:
    """Split a JAAS configuration into tokens, resolving quotes and escapes. Returns (token, True if
    the token is an unquoted '=' or ';')."""
    tokens: list[tuple[str, bool]] = []
    position, end = 0, len(text.rstrip())
    while position < end:
        match = _JAAS_TOKEN.match(text, position, end)
        if match is None:
            raise JaasConfigError("a closing quotation mark is missing")
        if match["quoted"] is not None:
            tokens.append((_unescape_quoted_text(match["quoted"][1:-1]), False))
        else:
            tokens.append((match["mark"] or match["word"], match["mark"] is not None))
        position = match.end()
    return tokens


def _unescape_quoted_text(text: str) -> str:
    return re.sub(r"\\(.)", lambda m: _ESCAPES.get(m[1], m[1]), text, flags=re.DOTALL)


_STRIMZI_ADVICE = (
    "use Java's own OAUTHBEARER settings: sasl.oauthbearer.token.endpoint.url, and clientId and "
    "clientSecret in sasl.jaas.config"
)
_VENDOR_CLASS_ADVICE = {
    "software.amazon.msk.": (
        "Amazon MSK IAM is not supported: MSK also supports SCRAM-SHA-512 (port 9096) and "
        "client certificates (security.protocol=SSL, port 9094)"
    ),
    "com.google.cloud.hosted.kafka.": (
        "Google's login module is not supported: Managed Kafka also supports PLAIN, with the "
        "service account's email address as username and its base64 key as password"
    ),
    "com.microsoft.azure.": (
        "Azure's login module is not supported: Event Hubs also supports PLAIN with "
        "$ConnectionString as username, and OAUTHBEARER with Entra ID's token endpoint"
    ),
    "com.azure.": (
        "Azure's login module is not supported: Event Hubs also supports PLAIN with "
        "$ConnectionString as username, and OAUTHBEARER with Entra ID's token endpoint"
    ),
    "io.strimzi.kafka.oauth.": f"Strimzi's login module is not supported: {_STRIMZI_ADVICE}",
    "com.sun.security.auth.module.Krb5LoginModule": (
        "Kerberos (GSSAPI) is not supported: use PLAIN, SCRAM, OAUTHBEARER or TLS certificates"
    ),
}

VENDOR_MECHANISM_ADVICE = {
    "GSSAPI": _VENDOR_CLASS_ADVICE["com.sun.security.auth.module.Krb5LoginModule"],
    "AWS_MSK_IAM": _VENDOR_CLASS_ADVICE["software.amazon.msk."],
}
"""Advice for unsupported vendor mechanisms, by value of sasl.mechanism."""


def suggest_vendor_class_replacement(class_name: str) -> str | None:
    """Return advice on what to use instead of a vendor's Java class; None if the class is
    unknown."""
    return next(
        (told for prefix, told in _VENDOR_CLASS_ADVICE.items() if class_name.startswith(prefix)),
        None,
    )
