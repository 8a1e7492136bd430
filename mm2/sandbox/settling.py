"""What a cluster with a ZooKeeper still lacks when its brokers say that they have started.

Each learns of the others from its controller a moment later, and SCRAM users (KIP-554) can be made
only now: before KRaft the storage is not formatted by a tool that could do it.
"""

from __future__ import annotations

from collections.abc import Sequence

import confluent_kafka
from confluent_kafka import admin as kafka_admin

from connect_runtime.base import amounts, errors
from connect_runtime.system import polling
from mm2.sandbox import clients, failures, secure

_CLIENT_ID = "mm2-sandbox"
_ANSWER_TIMEOUT_S = 5.0
_ALTER_TIMEOUT_S = 30.0
_MECHANISMS = (
    kafka_admin.ScramMechanism.SCRAM_SHA_256,
    kafka_admin.ScramMechanism.SCRAM_SHA_512,
)


def create_scram_users(access: clients.Properties, security: secure.Security) -> None:
    """Give every user of `security` its SCRAM credentials; `access` is that of `admin` by PLAIN.

    Raises `SandboxError` when the cluster refuses.
    """
    made = clients.Clients(access, alias="sandbox")
    admin = made.admin(_CLIENT_ID)
    alterations: list[kafka_admin.UserScramCredentialAlteration] = [
        kafka_admin.UserScramCredentialUpsertion(
            name,
            kafka_admin.ScramCredentialInfo(known, secure.SCRAM_ITERATIONS),
            password.encode(),
        )
        for name, password in security.passwords.items()
        for known in _MECHANISMS
    ]
    doing = "creating the SCRAM users"

    def ask() -> None:
        try:
            for future in admin.alter_user_scram_credentials(alterations).values():
                future.result(timeout=_ALTER_TIMEOUT_S)
        except TimeoutError:
            raise made.overdue(doing) from None
        except confluent_kafka.KafkaException as error:
            raise made.explain(error.args[0], doing) from None

    try:
        clients.repeated(ask)
    except errors.ConnectError as error:
        raise failures.SandboxError(str(error)) from error


def await_known(
    access: clients.Properties, addresses: Sequence[str], *, timeout_s: float = 30.0
) -> None:
    """Wait until every broker, asked at its own address, knows as many brokers as there are.

    `access` is that of a user who may ask. Raises `SandboxError` after `timeout_s`.
    """
    for address in addresses:
        admin = clients.Clients({**access, "bootstrap.servers": address}, alias="sandbox").admin(
            _CLIENT_ID
        )

        def knows_all(admin: kafka_admin.AdminClient = admin) -> bool:
            try:
                known = admin.list_topics(timeout=_ANSWER_TIMEOUT_S)
            except confluent_kafka.KafkaException:
                return False  # it does not know yet even who is asking
            return known.controller_id > 0 and len(known.brokers) == len(addresses)

        if not polling.until(knows_all, timeout_s=timeout_s):
            raise failures.SandboxError(
                f"the broker at {address} did not know all "
                f"{amounts.counted(len(addresses), 'broker')} after {timeout_s:.0f} s"
            )
