"""Cluster addresses and Kafka principals for the commands that messages suggest to operators.

Addresses and principals are real; secrets are never included. `mm2 run` sets the configuration
file that commands refer to; on a plain Connect worker there is none.
"""

from __future__ import annotations

import os

from cryptography import x509

from connect_runtime.kafka.cluster_access import KafkaClusterAccess
from connect_runtime.protocol.security_settings import SecuritySettings
from mm2.operator_commands import ClusterCommands, OperatorCommands

ANONYMOUS_PRINCIPAL = "User:ANONYMOUS"
"""What brokers call a client that gives no name (`KafkaPrincipal.ANONYMOUS`)."""


class _ProcessConfig:
    file = ""


def set_config_file(path: str) -> None:
    """The file that this process runs: from now on people are told to run it."""
    _ProcessConfig.file = os.path.abspath(path)


def build_operator(
    *, source: KafkaClusterAccess, target: KafkaClusterAccess, connector: str
) -> OperatorCommands:
    """The source is named as who reads sees it, the target as who writes; `connector` counts where
    this process runs no file."""
    return OperatorCommands(
        file=_ProcessConfig.file,
        source=build_cluster_access(source),
        target=build_cluster_access(target),
        connector="" if _ProcessConfig.file else connector,
    )


def build_cluster_access(access: KafkaClusterAccess) -> ClusterCommands:
    """What people must type to reach it, and as whom brokers know us."""
    return ClusterCommands(
        bootstrap=",".join(access.bootstrap),
        principal=resolve_principal(access.security),
        secured=access.security.protocol != "PLAINTEXT",
    )


def resolve_principal(security: SecuritySettings) -> str:
    """Who brokers take us for, by Kafka's default rules (`DefaultKafkaPrincipalBuilder`).

    Of a token's owner the client's id is all that is known here.
    """
    if security.uses_sasl:
        token = security.oauth.client_id if security.oauth is not None else None
        return f"User:{security.username or token or 'NAME'}"
    if security.certificate_pem is None:
        return ANONYMOUS_PRINCIPAL
    certificate = x509.load_pem_x509_certificate(security.certificate_pem.encode())
    return f"User:{certificate.subject.rfc4514_string()}"
