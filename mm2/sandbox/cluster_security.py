"""TLS, SASL and ACLs for a sandbox cluster: the broker and client settings of a cluster that is
started with `--secure`.

Clients connect over SASL_SSL with SCRAM-SHA-512, SCRAM-SHA-256 or PLAIN. Brokers and controllers
connect to each other over SASL_SSL with PLAIN. Clusters without TLS use SASL_PLAINTEXT instead. On
the loopback interface, other users cannot read passwords from it. Certificates and passwords are
generated per cluster. `admin` is a super user; other users initially have no ACLs.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from connect_runtime.system.certificates import CertificateAuthority
from connect_runtime.system.system_clock import SystemClock
from mm2.sandbox.sandbox_errors import SandboxError

ADMIN_USER = "admin"
SCRAM_512 = "SCRAM-SHA-512"
SCRAM_256 = "SCRAM-SHA-256"
PLAIN = "PLAIN"
SASL_MECHANISMS = (SCRAM_512, SCRAM_256, PLAIN)

_BROKER_USER = "broker"
SCRAM_ITERATIONS = 4096
_SCRAM_MECHANISMS = (SCRAM_512, SCRAM_256)
_PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
_SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
_CERTIFICATE_HOSTS = ("127.0.0.1", "localhost")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSecurity:
    """Passwords of a secure cluster, and with TLS its certificates (files in `folder`)."""

    folder: Path
    passwords: Mapping[str, str] = field(repr=False)
    key_pem: str = field(default="", repr=False)
    certificate_pem: str = field(default="", repr=False)
    uses_tls: bool = True

    @classmethod
    def create(cls, folder: Path, users: Sequence[str] = (), *, uses_tls: bool = True) -> Self:
        """Generate passwords for `admin` and each of `users`, and with TLS the certificates."""
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        names = dict.fromkeys((_BROKER_USER, ADMIN_USER, *users))
        passwords = {name: secrets.token_urlsafe(18) for name in names}
        if not uses_tls:
            return cls(folder=folder, passwords=passwords, uses_tls=False)
        wall_ms = SystemClock().wall_ms()
        authority = CertificateAuthority.create("mm2 sandbox", wall_ms=wall_ms)
        leaf = authority.issue_certificate("broker", hosts=_CERTIFICATE_HOSTS, wall_ms=wall_ms)
        (folder / "ca.pem").write_bytes(authority.certificate_pem)
        made = cls(
            folder=folder,
            passwords=passwords,
            key_pem=leaf.key_pem.decode(),
            certificate_pem=leaf.certificate_pem.decode(),
        )
        made.keystore.touch(mode=0o600)
        made.keystore.write_bytes(leaf.key_pem + leaf.certificate_pem)
        return made

    @property
    def keystore(self) -> Path:
        """Path of the keystore with the brokers' private key and certificate."""
        return self.folder / "broker.pem"

    @property
    def protocol(self) -> str:
        """Security protocol of all listeners."""
        return "SASL_SSL" if self.uses_tls else "SASL_PLAINTEXT"

    def client_properties(self, user: str, mechanism: str) -> dict[str, str]:
        """Return the Java client properties of a user."""
        if mechanism not in SASL_MECHANISMS:
            raise SandboxError(
                f"SASL mechanism {mechanism} is not supported: use {', '.join(SASL_MECHANISMS)}"
            )
        module = _PLAIN_MODULE if mechanism == PLAIN else _SCRAM_MODULE
        return {
            "security.protocol": self.protocol,
            "sasl.mechanism": mechanism,
            "sasl.jaas.config": _make_jaas_entry(module, self._build_login_properties(user)),
            **(self._build_truststore_settings() if self.uses_tls else {}),
        }

    def make_broker_settings(
        self,
        client_listeners: Iterable[str],
        *,
        controller: str | None,
        authorizer: str,
        key_in_settings: bool = False,
    ) -> dict[str, str]:
        """Return the security settings of a broker for its client listeners and its controller
        listener.

        `controller` is None if the broker has no controller listener. `authorizer` is the class
        that evaluates ACLs. If `key_in_settings` is true, the settings contain the TLS private key
        itself, for releases that cannot read an unencrypted key from a file.
        """
        members = self._build_login_properties(_BROKER_USER)
        known = {f"user_{name}": password for name, password in self.passwords.items()}
        settings = {
            "sasl.enabled.mechanisms": ",".join(SASL_MECHANISMS),
            "sasl.mechanism.inter.broker.protocol": PLAIN,
            "authorizer.class.name": authorizer,
            "super.users": f"User:{ADMIN_USER};User:{_BROKER_USER}",
        }
        if self.uses_tls:
            settings |= self._build_truststore_settings()
            settings |= self._build_keystore_settings(key_in_settings=key_in_settings)
        if controller is not None:
            prefix = f"listener.name.{controller.lower()}"
            brokers = members | {f"user_{_BROKER_USER}": self.passwords[_BROKER_USER]}
            settings["sasl.mechanism.controller.protocol"] = PLAIN
            settings[f"{prefix}.sasl.enabled.mechanisms"] = PLAIN
            settings[f"{prefix}.plain.sasl.jaas.config"] = _make_jaas_entry(_PLAIN_MODULE, brokers)
        for listener in client_listeners:
            prefix = f"listener.name.{listener.lower()}"
            settings[f"{prefix}.plain.sasl.jaas.config"] = _make_jaas_entry(
                _PLAIN_MODULE, members | known
            )
            for mechanism in _SCRAM_MECHANISMS:
                settings[f"{prefix}.{mechanism.lower()}.sasl.jaas.config"] = _make_jaas_entry(
                    _SCRAM_MODULE, {}
                )
        return settings

    def _build_truststore_settings(self) -> dict[str, str]:
        return {
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.folder / "ca.pem"),
        }

    def _build_keystore_settings(self, *, key_in_settings: bool) -> dict[str, str]:
        if not key_in_settings:
            return {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(self.keystore)}
        return {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.key": self.key_pem,
            "ssl.keystore.certificate.chain": self.certificate_pem,
        }

    def _build_login_properties(self, user: str) -> dict[str, str]:
        if user not in self.passwords:
            raise SandboxError(f"unknown user {user}: this cluster has {', '.join(self.passwords)}")
        return {"username": user, "password": self.passwords[user]}


def _make_jaas_entry(module: str, options: Mapping[str, str]) -> str:
    # The passwords are URL-safe base64, so they need no quoting.
    words = [module, "required", *(f'{key}="{value}"' for key, value in options.items())]
    return " ".join(words) + ";"
