"""What the person who runs a flow is told to type: real files, addresses and names, no secrets."""

from __future__ import annotations

import os

from cryptography import x509

from connect_runtime.wire.codec import security_settings
from mm2.app.settings import settings as app_settings
from mm2.core import commands, flows

ANONYMOUS = "User:ANONYMOUS"
"""What brokers call a client that gives no name (`KafkaPrincipal.ANONYMOUS`)."""


def of(settings: app_settings.Settings, flow: flows.Flow) -> commands.Operator:
    """The source is named as who reads sees it, the target as who writes."""
    clients = settings.clients_of(flow)
    return commands.Operator(
        file=os.path.abspath(settings.file),
        source=_cluster(clients.consumer),
        target=_cluster(clients.producer),
    )


def _cluster(cluster: app_settings.ClusterSettings) -> commands.Cluster:
    return commands.Cluster(
        bootstrap=",".join(cluster.bootstrap_servers),
        principal=principal(cluster.security),
        secured=cluster.security.protocol != "PLAINTEXT",
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
