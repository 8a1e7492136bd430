"""Logins that need a vendor's Java classes: what such a class is, and which other way in there is.

Cloud vendors' handlers fetch credentials from their own services, which no other client can do in
their place; each vendor's brokers take a standard mechanism too.
"""

from __future__ import annotations

_STRIMZI = (
    "use Java's own OAUTHBEARER settings: sasl.oauthbearer.token.endpoint.url, and clientId and "
    "clientSecret in sasl.jaas.config"
)
_ADVICE = {
    "software.amazon.msk.": (
        "Amazon MSK's IAM is not supported: MSK also takes SCRAM-SHA-512 (port 9096) and "
        "client certificates (security.protocol=SSL, port 9094)"
    ),
    "com.google.cloud.hosted.kafka.": (
        "Google's login is not supported: Managed Kafka also takes PLAIN, with the service "
        "account's address as username and its base64 key as password"
    ),
    "com.microsoft.azure.": (
        "Azure's login is not supported: Event Hubs also takes PLAIN, with $ConnectionString as "
        "username, and OAUTHBEARER with Entra ID's token endpoint"
    ),
    "com.azure.": (
        "Azure's login is not supported: Event Hubs also takes PLAIN, with $ConnectionString as "
        "username, and OAUTHBEARER with Entra ID's token endpoint"
    ),
    "io.strimzi.kafka.oauth.": f"Strimzi's login is not needed: {_STRIMZI}",
    "com.sun.security.auth.module.Krb5LoginModule": (
        "Kerberos (GSSAPI) is not supported: use PLAIN, SCRAM, OAUTHBEARER or TLS certificates"
    ),
}

MECHANISMS = {
    "GSSAPI": _ADVICE["com.sun.security.auth.module.Krb5LoginModule"],
    "AWS_MSK_IAM": _ADVICE["software.amazon.msk."],
}
"""By sasl.mechanism."""


def advice(class_name: str) -> str | None:
    """What to do instead of a vendor's class; None: it is nobody's that is known here."""
    return next((told for prefix, told in _ADVICE.items() if class_name.startswith(prefix)), None)
