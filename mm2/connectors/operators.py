"""What people are told to type about a connector's clusters: real addresses and names, no secrets.

`mm2 run` says which file it runs; on a plain Connect worker there is none.
"""

from __future__ import annotations

import os

from cryptography import x509

from connect_runtime.kafka_client import access as kafka_access
from connect_runtime.wire.codec import security_settings
from mm2.core import commands

ANONYMOUS = "User:ANONYMOUS"
"""What brokers call a client that gives no name (`KafkaPrincipal.ANONYMOUS`)."""


class _Process:
    file = ""


def use_file(path: str) -> None:
    """The file that this process runs: from now on people are told to run it."""
    _Process.file = os.path.abspath(path)


def of(
    *, source: kafka_access.Access, target: kafka_access.Access, connector: str
) -> commands.Operator:
    """The source is named as who reads sees it, the target as who writes; `connector` counts where
    this process runs no file."""
    return commands.Operator(
        file=_Process.file,
        source=cluster(source),
        target=cluster(target),
        connector="" if _Process.file else connector,
    )


def cluster(access: kafka_access.Access) -> commands.Cluster:
    """What people must type to reach it, and as whom brokers know us."""
    return commands.Cluster(
        bootstrap=",".join(access.bootstrap),
        principal=principal(access.security),
        secured=access.security.protocol != "PLAINTEXT",
    )


def principal(security: security_settings.Security) -> str:
    """Who brokers take us for, by Kafka's default rules (`DefaultKafkaPrincipalBuilder`).

    Of a token's owner the client's id is all that is known here.
    """
    if security.uses_sasl:
        token = security.oauth.client_id if security.oauth is not None else None
        return f"User:{security.username or token or 'NAME'}"
    if security.certificate_pem is None:
        return ANONYMOUS
    certificate = x509.load_pem_x509_certificate(security.certificate_pem.encode())
    return f"User:{certificate.subject.rfc4514_string()}"
