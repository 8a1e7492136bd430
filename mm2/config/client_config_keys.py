"""Kafka client properties: their definitions in Java's clients, and which properties mm2 supports
or refuses.

The names are those of the producer, consumer and admin clients of Kafka 4.3. A cluster's unprefixed
properties (`source.cluster.X`) are passed to its clients only if they are in `CLIENT_KEYS`
(`MirrorClientConfig`). Properties that mm2 does not implement are refused by name instead of being
ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from connect_runtime.api.config_def import ConfigDef, Importance, Type
from connect_runtime.api.config_validators import (
    CaseInsensitiveValidString,
    Range,
    Validator,
    ValidList,
)
from connect_runtime.protocol import security_settings
from mm2.config import config_value_types, java_class_placeholders
from mm2.config.config_value_types import ValueType

HIGH, MEDIUM, LOW = Importance
UNIQUE_NAMES = ValidList()
"""Validator that requires list items to be unique and non-empty."""

BOOTSTRAP_SERVERS = "bootstrap.servers"
SECURITY_PROTOCOL = "security.protocol"
SECURITY_PROTOCOLS = ("SASL_SSL", "PLAINTEXT", "SSL", "SASL_PLAINTEXT")
"""Supported security protocols, in the order of Java's validation message."""

_OAUTH_PACKAGE = "org.apache.kafka.common.security.oauthbearer."
_between = Range
_Row = tuple[str, Type, Any, Importance, str]

_SSL_ROWS: tuple[_Row, ...] = (
    ("protocol", Type.STRING, "TLSv1.3", MEDIUM, "Preferred TLS version."),
    ("provider", Type.STRING, None, MEDIUM, "Java's security provider."),
    ("cipher.suites", Type.LIST, [], LOW, "Allowed cipher suites; empty: all suites."),
    ("enabled.protocols", Type.LIST, ["TLSv1.2", "TLSv1.3"], MEDIUM, "Allowed TLS versions."),
    ("keystore.type", Type.STRING, "JKS", MEDIUM, "Format of the key store: JKS, PKCS12, PEM."),
    (
        "keystore.location",
        Type.STRING,
        None,
        HIGH,
        ("Key store file that contains the client's private key."),
    ),
    ("keystore.password", Type.PASSWORD, None, HIGH, "Password of the key store."),
    ("key.password", Type.PASSWORD, None, HIGH, "Password of the private key in the key store."),
    ("keystore.key", Type.PASSWORD, None, HIGH, "Private key as PEM text."),
    ("keystore.certificate.chain", Type.PASSWORD, None, HIGH, "Certificate chain as PEM text."),
    ("truststore.certificates", Type.PASSWORD, None, HIGH, "Trusted certificates as PEM text."),
    ("truststore.type", Type.STRING, "JKS", MEDIUM, "Format of the trust store."),
    ("truststore.location", Type.STRING, None, HIGH, "Trust store file."),
    ("truststore.password", Type.PASSWORD, None, HIGH, "Password of the trust store."),
    ("keymanager.algorithm", Type.STRING, "SunX509", LOW, "Java's key manager algorithm."),
    ("trustmanager.algorithm", Type.STRING, "PKIX", LOW, "Java's trust manager algorithm."),
    (
        "endpoint.identification.algorithm",
        Type.STRING,
        "https",
        LOW,
        "https: verify the host name in the broker's certificate; empty: accept any host name.",
    ),
    ("secure.random.implementation", Type.STRING, None, LOW, "Java's SecureRandom algorithm."),
    ("engine.factory.class", Type.CLASS, None, LOW, "Java class that creates TLS engines."),
)
_SASL_ROWS: tuple[_Row, ...] = (
    ("kerberos.service.name", Type.STRING, None, MEDIUM, "Kerberos service name of the brokers."),
    ("kerberos.kinit.cmd", Type.STRING, "/usr/bin/kinit", LOW, "Path of the kinit command."),
    (
        "kerberos.ticket.renew.window.factor",
        Type.DOUBLE,
        0.8,
        LOW,
        "Fraction of a Kerberos ticket's lifetime after which the ticket is renewed.",
    ),
    (
        "kerberos.ticket.renew.jitter",
        Type.DOUBLE,
        0.05,
        LOW,
        "Random jitter added to the time at which a Kerberos ticket is renewed.",
    ),
    (
        "kerberos.min.time.before.relogin",
        Type.LONG,
        60_000,
        LOW,
        "Minimum milliseconds between logins.",
    ),
    (
        "login.refresh.window.factor",
        Type.DOUBLE,
        0.8,
        LOW,
        "Fraction of an OAuth token's lifetime after which the token is refreshed.",
    ),
    (
        "login.refresh.window.jitter",
        Type.DOUBLE,
        0.05,
        LOW,
        "Random jitter added to the time at which an OAuth token is refreshed.",
    ),
    (
        "login.refresh.min.period.seconds",
        Type.SHORT,
        60,
        LOW,
        "Minimum time between refreshes of an OAuth token, in seconds.",
    ),
    (
        "login.refresh.buffer.seconds",
        Type.SHORT,
        300,
        LOW,
        "Time before the expiry of an OAuth token at which it is refreshed, in seconds.",
    ),
    ("mechanism", Type.STRING, "GSSAPI", MEDIUM, "SASL mechanism."),
    ("jaas.config", Type.PASSWORD, None, MEDIUM, "JAAS login module with its options."),
    ("client.callback.handler.class", Type.CLASS, None, MEDIUM, "Java SASL callback handler."),
    ("login.callback.handler.class", Type.CLASS, None, MEDIUM, "Java login callback handler."),
    ("login.class", Type.CLASS, None, MEDIUM, "Java login class."),
    (
        "login.connect.timeout.ms",
        Type.INT,
        None,
        LOW,
        ("Timeout for connecting to the OAuth token endpoint."),
    ),
    (
        "login.read.timeout.ms",
        Type.INT,
        None,
        LOW,
        "Timeout for reading from the OAuth token endpoint.",
    ),
    ("login.retry.backoff.max.ms", Type.LONG, 10_000, LOW, "Maximum delay between login attempts."),
    ("login.retry.backoff.ms", Type.LONG, 100, LOW, "Initial delay between login attempts."),
)
_BEARER_ROWS: tuple[_Row, ...] = (
    (
        "jwt.retriever.class",
        Type.CLASS,
        java_class_placeholders.get_java_class(f"{_OAUTH_PACKAGE}DefaultJwtRetriever"),
        MEDIUM,
        "Java class that fetches tokens.",
    ),
    (
        "jwt.validator.class",
        Type.CLASS,
        java_class_placeholders.get_java_class(f"{_OAUTH_PACKAGE}DefaultJwtValidator"),
        MEDIUM,
        "Java class that validates tokens.",
    ),
    ("scope", Type.STRING, None, MEDIUM, "Scope to request from the OAuth token endpoint."),
    ("client.credentials.client.id", Type.STRING, None, MEDIUM, "OAuth client id."),
    ("client.credentials.client.secret", Type.PASSWORD, None, MEDIUM, "OAuth client secret."),
    ("assertion.algorithm", Type.STRING, "RS256", MEDIUM, "Signature algorithm of the assertion."),
    ("assertion.claim.aud", Type.STRING, None, MEDIUM, "Audience (aud) of the assertion."),
    ("assertion.claim.exp.seconds", Type.INT, 300, LOW, "Seconds until the assertion expires."),
    ("assertion.claim.iss", Type.STRING, None, MEDIUM, "Issuer (iss) of the assertion."),
    (
        "assertion.claim.jti.include",
        Type.BOOLEAN,
        False,
        MEDIUM,
        ("Whether to add a unique id (jti) to the client assertion."),
    ),
    (
        "assertion.claim.nbf.seconds",
        Type.INT,
        60,
        LOW,
        "How long before the current time the client assertion becomes valid (nbf), in seconds.",
    ),
    ("assertion.claim.sub", Type.STRING, None, MEDIUM, "Subject (sub) of the assertion."),
    (
        "assertion.file",
        Type.STRING,
        None,
        MEDIUM,
        "File that contains a prebuilt client assertion.",
    ),
    (
        "assertion.private.key.file",
        Type.STRING,
        None,
        MEDIUM,
        ("File with the private key that signs the client assertion."),
    ),
    ("assertion.private.key.passphrase", Type.PASSWORD, None, MEDIUM, "Passphrase of that key."),
    (
        "assertion.template.file",
        Type.STRING,
        None,
        MEDIUM,
        ("File with additional claims and headers for the client assertion."),
    ),
    ("scope.claim.name", Type.STRING, "scope", LOW, "Token claim that contains the scope."),
    ("sub.claim.name", Type.STRING, "sub", LOW, "Token claim that contains the subject."),
    ("token.endpoint.url", Type.STRING, None, MEDIUM, "URL of the token endpoint."),
    (
        "jwks.endpoint.url",
        Type.STRING,
        None,
        MEDIUM,
        ("URL of the keys that verify token signatures (JWKS)."),
    ),
    (
        "jwks.endpoint.refresh.ms",
        Type.LONG,
        3_600_000,
        LOW,
        ("Interval between refreshes of the token verification keys (JWKS)."),
    ),
    (
        "jwks.endpoint.retry.backoff.max.ms",
        Type.LONG,
        10_000,
        LOW,
        "Maximum delay between attempts to fetch the token verification keys.",
    ),
    (
        "jwks.endpoint.retry.backoff.ms",
        Type.LONG,
        100,
        LOW,
        "Initial delay between attempts to fetch the token verification keys.",
    ),
    ("clock.skew.seconds", Type.INT, 30, LOW, "Tolerated clock difference."),
    ("expected.audience", Type.LIST, [], HIGH, "Audience (aud) that OAuth tokens must contain."),
    ("expected.issuer", Type.STRING, None, HIGH, "Issuer (iss) that OAuth tokens must contain."),
    ("header.urlencode", Type.BOOLEAN, False, LOW, "Whether to URL-encode the client credentials."),
)
_VALIDATORS: dict[str, Validator] = {
    "sasl.login.refresh.window.factor": _between(at_least=0.5, at_most=1.0),
    "sasl.login.refresh.window.jitter": _between(at_least=0.0, at_most=0.25),
    "sasl.login.refresh.min.period.seconds": _between(at_least=0, at_most=900),
    "sasl.login.refresh.buffer.seconds": _between(at_least=0, at_most=3600),
    "sasl.oauthbearer.assertion.algorithm": CaseInsensitiveValidString("ES256", "RS256"),
    "sasl.oauthbearer.assertion.claim.exp.seconds": _between(at_least=0, at_most=86_400),
    "sasl.oauthbearer.assertion.claim.nbf.seconds": _between(at_least=0, at_most=3600),
}


def define_security_keys(definition: ConfigDef) -> ConfigDef:
    """Define all security keys, in the same order as Java."""
    definition.define(
        SECURITY_PROTOCOL,
        Type.STRING,
        "PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL.",
        default="PLAINTEXT",
        validator=CaseInsensitiveValidString(*SECURITY_PROTOCOLS),
        importance=MEDIUM,
    )
    definition.define(
        "config.providers",
        Type.LIST,
        "Names of the config providers that resolve placeholders ${…}.",
        default=[],
        validator=UNIQUE_NAMES,
        importance=LOW,
    )
    families = (("ssl.", _SSL_ROWS), ("sasl.", _SASL_ROWS), ("sasl.oauthbearer.", _BEARER_ROWS))
    for prefix, rows in families:
        for name, of, default, importance, text in rows:
            key = prefix + name
            default_validator = UNIQUE_NAMES if of is Type.LIST else None
            definition.define(
                key,
                of,
                text,
                default=default,
                validator=_VALIDATORS.get(key, default_validator),
                importance=importance,
            )
    return definition


SECURITY_KEYS = define_security_keys(ConfigDef())
CLIENT_KEYS: frozenset[str] = (frozenset(SECURITY_KEYS.keys) | {BOOTSTRAP_SERVERS}) - {
    "config.providers"
}
"""Unprefixed cluster properties that are passed to the cluster's clients (`MirrorClientConfig`)."""


_INT_MAX = 2_147_483_647
_DURATION_MS = config_value_types.integer_type(0, _INT_MAX)
_SIZE_BYTES = config_value_types.integer_type(1, _INT_MAX)
_SOCKET_BYTES = config_value_types.integer_type(0, _INT_MAX, or_minus_one=True)

# Client properties that mm2 implements, with the type of their values.
SUPPORTED_PROPERTIES: Mapping[str, ValueType[object]] = {
    "bootstrap.servers": config_value_types.text_type("host:port, several separated by commas"),
    "client.dns.lookup": config_value_types.choice_type(
        "use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"
    ),
    "client.rack": config_value_types.text_type("rack or availability zone that mm2 runs in"),
    "connections.max.idle.ms": config_value_types.integer_type(0, _INT_MAX, or_minus_one=True),
    "fetch.max.bytes": _SIZE_BYTES,
    "fetch.max.wait.ms": _DURATION_MS,
    "fetch.min.bytes": config_value_types.integer_type(0, _INT_MAX),
    "max.partition.fetch.bytes": _SIZE_BYTES,
    "metadata.max.age.ms": _DURATION_MS,
    "metadata.recovery.strategy": config_value_types.choice_type("rebootstrap", "none"),
    "receive.buffer.bytes": _SOCKET_BYTES,
    "reconnect.backoff.max.ms": _DURATION_MS,
    "reconnect.backoff.ms": _DURATION_MS,
    "request.timeout.ms": config_value_types.integer_type(1, _INT_MAX),
    "retry.backoff.max.ms": _DURATION_MS,
    "retry.backoff.ms": _DURATION_MS,
    "send.buffer.bytes": _SOCKET_BYTES,
    "socket.connection.setup.timeout.ms": _DURATION_MS,
}

# `security_settings` validates all keys with these prefixes, and reports unknown ones.
SECURITY_PREFIXES = ("security.", "sasl.", "ssl.")

_SET_BY_MM2 = "cannot be set: mm2 sets it, because replication depends on its value"
_IGNORED_FOR_BATCHES = "does not apply: record batches are copied unchanged from the source"
_NO_MEANING_GROUP = "does not apply: mm2 reads without a consumer group"
_JAVA_ONLY = "is not supported: it refers to Java classes or Java metrics"

_NOT_SUPPORTED_YET = "is not supported yet: remove it"

REFUSED_PROPERTIES: Mapping[str, str] = {
    **dict.fromkeys(
        ("socket.connection.setup.timeout.max.ms",),
        _NOT_SUPPORTED_YET,
    ),
    **dict.fromkeys(
        (
            "acks",
            "allow.auto.create.topics",
            "check.crcs",
            "enable.idempotence",
            "isolation.level",
            "max.in.flight.requests.per.connection",
            "transaction.timeout.ms",
            "transaction.two.phase.commit.enable",
            "transactional.id",
        ),
        _SET_BY_MM2,
    ),
    **dict.fromkeys(
        (
            "batch.size",
            "compression.gzip.level",
            "compression.lz4.level",
            "compression.type",
            "compression.zstd.level",
            "linger.ms",
            "max.request.size",
            "partitioner.adaptive.partitioning.enable",
            "partitioner.availability.timeout.ms",
            "partitioner.ignore.keys",
        ),
        _IGNORED_FOR_BATCHES,
    ),
    **dict.fromkeys(
        (
            "auto.commit.interval.ms",
            "enable.auto.commit",
            "exclude.internal.topics",
            "group.id",
            "group.instance.id",
            "group.protocol",
            "group.remote.assignor",
            "heartbeat.interval.ms",
            "max.poll.interval.ms",
            "max.poll.records",
            "session.timeout.ms",
            "share.acknowledgement.mode",
            "share.acquire.mode",
        ),
        _NO_MEANING_GROUP,
    ),
    **dict.fromkeys(
        (
            "interceptor.classes",
            "key.deserializer",
            "key.serializer",
            "metric.reporters",
            "metrics.num.samples",
            "metrics.recording.level",
            "metrics.sample.window.ms",
            "partition.assignment.strategy",
            "partitioner.class",
            "value.deserializer",
            "value.serializer",
        ),
        _JAVA_ONLY,
    ),
    "auto.offset.reset": (
        "cannot be set on a cluster: set the key start (earliest or latest) in the flow"
    ),
    "client.id": "cannot be set: mm2 derives client ids from the flow and task (mm2-east->west-0)",
    "default.api.timeout.ms": "cannot be set on a cluster: set admin.timeout.ms in the flow",
    "enable.metrics.push": "does not apply: mm2 does not push client metrics to brokers",
    "bootstrap.controllers": "is not supported: mm2 connects to brokers; set bootstrap.servers",
    "buffer.memory": "cannot be set on a cluster: set buffer.memory in the flow",
    "config.providers": "is not needed: ${env:…}, ${file:…:…} and ${dir:…:…} always work",
    "delivery.timeout.ms": (
        "cannot be set: mm2 retries for as long as the flow runs. (In a configuration of Java "
        "MirrorMaker 2, mm2 uses this key as the time to wait for in-flight writes of a Java "
        "worker that has crashed)"
    ),
    "max.block.ms": "cannot be set: mm2 retries for as long as the flow runs",
    "metadata.recovery.rebootstrap.trigger.ms": (
        "does not apply: mm2 reconnects to bootstrap.servers when no known broker responds"
    ),
    "metadata.max.idle.ms": "does not apply: mm2 always keeps the metadata of replicated topics",
}

KNOWN_PROPERTIES = (
    frozenset(SUPPORTED_PROPERTIES)
    | security_settings.SUPPORTED_KEYS
    | frozenset(REFUSED_PROPERTIES)
)
