"""Cluster addresses and Kafka principals for the commands that messages suggest to operators.

Addresses and principals are the actual values, but secrets are never included. `mm2 run` sets the
configuration file that the commands reference. On a plain Connect worker no such file exists.
"""

from __future__ import annotations

import os

from cryptography import x509

from connect_runtime.kafka.librdkafka_connection_settings import KafkaClusterAccess
from connect_runtime.protocol.security_settings import SecuritySettings
from mm2.suggested_commands import ClusterCommands, OperatorCommands

ANONYMOUS_PRINCIPAL = "User:ANONYMOUS"
"""Principal of unauthenticated clients (`KafkaPrincipal.ANONYMOUS`)."""


class _CurrentConfigFile:
    """Path of the configuration file of this process; "" on a plain Connect worker, which has
    none."""

    file = ""


def set_config_file(path: str) -> None:
    """Set the configuration file that suggested commands reference."""
    _CurrentConfigFile.file = os.path.abspath(path)


def build_operator_commands(
    *, source: KafkaClusterAccess, target: KafkaClusterAccess, connector: str
) -> OperatorCommands:
    """Build the `OperatorCommands` of a flow: they format the commands that error messages suggest.

    `source` contains the credentials for reading from the source cluster, `target` those for
    writing to the target cluster.
    `connector` is used only if this process has no configuration file.
    """
    return OperatorCommands(
        file=_CurrentConfigFile.file,
        source=build_cluster_commands(source),
        target=build_cluster_commands(target),
        connector="" if _CurrentConfigFile.file else connector,
    )


def build_cluster_commands(access: KafkaClusterAccess) -> ClusterCommands:
    """Build the commands for one cluster, with the cluster's address and this client's
    principal."""
    return ClusterCommands(
        bootstrap=",".join(access.bootstrap),
        principal=resolve_principal(access.security),
        secured=access.security.protocol != "PLAINTEXT",
    )


def resolve_principal(security: SecuritySettings) -> str:
    """Derive the client's principal using Kafka's default rules (`DefaultKafkaPrincipalBuilder`).

    For OAuth, only the client id is known, not the token's subject.
    """
    if security.uses_sasl:
        token = security.oauth.client_id if security.oauth is not None else None
        return f"User:{security.username or token or 'NAME'}"
    if security.certificate_pem is None:
        return ANONYMOUS_PRINCIPAL
    certificate = x509.load_pem_x509_certificate(security.certificate_pem.encode())
    return f"User:{certificate.subject.rfc4514_string()}"
