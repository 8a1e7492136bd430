"""Which settings are secrets wherever they come from (`ConfigDef.Type.PASSWORD`)."""

from __future__ import annotations

_ENDINGS = (
    "password",
    "secret",
    "passphrase",
    "token",
    "sasl.jaas.config",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.key",
    "ssl.truststore.certificates",
)


def is_sensitive(name: str) -> bool:
    """By the name, whatever stands before it: `producer.override.sasl.jaas.config`."""
    return name.endswith(_ENDINGS)
