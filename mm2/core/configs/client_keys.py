"""The keys of connections: servers and security, as Java's clients define them.

Plain keys of a cluster (`source.cluster.X`) reach its clients only if they are among `CLIENT`
(`MirrorClientConfig`). At the top of a connector they are defined as well, as `SECURITY`, and act
on nothing: MirrorMaker 2 has them there so that a file's own survive on their way to the clusters.
"""

from __future__ import annotations

from typing import Any

from connect_runtime.api import config_def, config_validators
from mm2.core.configs import java_classes

Type = config_def.Type
HIGH, MEDIUM, LOW = config_def.Importance
NAMES_ONCE = config_validators.ValidList()
"""No item twice, none empty."""

BOOTSTRAP = "bootstrap.servers"
PROTOCOL = "security.protocol"
PROTOCOLS = ("SASL_SSL", "PLAINTEXT", "SSL", "SASL_PLAINTEXT")
"""In the order in which Java names them."""

_OAUTH = "org.apache.kafka.common.security.oauthbearer."
_between = config_validators.Range
_Row = tuple[str, Type, Any, config_def.Importance, str]

_SSL: tuple[_Row, ...] = (
    ("protocol", Type.STRING, "TLSv1.3", MEDIUM, "Which TLS to begin with."),
    ("provider", Type.STRING, None, MEDIUM, "Java's security provider."),
    ("cipher.suites", Type.LIST, [], LOW, "Allowed ciphers; none named: all."),
    ("enabled.protocols", Type.LIST, ["TLSv1.2", "TLSv1.3"], MEDIUM, "Allowed TLS versions."),
    ("keystore.type", Type.STRING, "JKS", MEDIUM, "Format of the key store: JKS, PKCS12, PEM."),
    ("keystore.location", Type.STRING, None, HIGH, "File with the client's key."),
    ("keystore.password", Type.PASSWORD, None, HIGH, "Opens the key store."),
    ("key.password", Type.PASSWORD, None, HIGH, "Opens the key in it."),
    ("keystore.key", Type.PASSWORD, None, HIGH, "The key itself, as PEM text."),
    ("keystore.certificate.chain", Type.PASSWORD, None, HIGH, "Its certificates, as PEM text."),
    ("truststore.certificates", Type.PASSWORD, None, HIGH, "Who is trusted, as PEM text."),
    ("truststore.type", Type.STRING, "JKS", MEDIUM, "Format of the trust store."),
    ("truststore.location", Type.STRING, None, HIGH, "File with who is trusted."),
    ("truststore.password", Type.PASSWORD, None, HIGH, "Opens the trust store."),
    ("keymanager.algorithm", Type.STRING, "SunX509", LOW, "How Java picks its key."),
    ("trustmanager.algorithm", Type.STRING, "PKIX", LOW, "How Java checks certificates."),
    (
        "endpoint.identification.algorithm",
        Type.STRING,
        "https",
        LOW,
        "https: the certificate must be for the host; empty: for any.",
    ),
    ("secure.random.implementation", Type.STRING, None, LOW, "Java's source of chance."),
    ("engine.factory.class", Type.CLASS, None, LOW, "A Java class that makes TLS engines."),
)
_SASL: tuple[_Row, ...] = (
    ("kerberos.service.name", Type.STRING, None, MEDIUM, "The brokers' name in Kerberos."),
    ("kerberos.kinit.cmd", Type.STRING, "/usr/bin/kinit", LOW, "What fetches tickets."),
    (
        "kerberos.ticket.renew.window.factor",
        Type.DOUBLE,
        0.8,
        LOW,
        "Part of its life after which a ticket is renewed.",
    ),
    ("kerberos.ticket.renew.jitter", Type.DOUBLE, 0.05, LOW, "By chance so much earlier."),
    ("kerberos.min.time.before.relogin", Type.LONG, 60_000, LOW, "Milliseconds between logins."),
    (
        "login.refresh.window.factor",
        Type.DOUBLE,
        0.8,
        LOW,
        "Part of its life that a token is used.",
    ),
    ("login.refresh.window.jitter", Type.DOUBLE, 0.05, LOW, "By chance so much earlier."),
    ("login.refresh.min.period.seconds", Type.SHORT, 60, LOW, "A token is kept so long at least."),
    ("login.refresh.buffer.seconds", Type.SHORT, 300, LOW, "And renewed so long before its end."),
    ("mechanism", Type.STRING, "GSSAPI", MEDIUM, "How the client proves who it is."),
    ("jaas.config", Type.PASSWORD, None, MEDIUM, "Login module with its options."),
    ("client.callback.handler.class", Type.CLASS, None, MEDIUM, "A Java class, asked by SASL."),
    ("login.callback.handler.class", Type.CLASS, None, MEDIUM, "A Java class, asked at login."),
    ("login.class", Type.CLASS, None, MEDIUM, "A Java class that logs in."),
    ("login.connect.timeout.ms", Type.INT, None, LOW, "For the token endpoint."),
    ("login.read.timeout.ms", Type.INT, None, LOW, "For the token endpoint."),
    ("login.retry.backoff.max.ms", Type.LONG, 10_000, LOW, "The longest wait between tries."),
    ("login.retry.backoff.ms", Type.LONG, 100, LOW, "The first wait between tries."),
)
_BEARER: tuple[_Row, ...] = (
    (
        "jwt.retriever.class",
        Type.CLASS,
        java_classes.named(f"{_OAUTH}DefaultJwtRetriever"),
        MEDIUM,
        "A Java class that fetches tokens.",
    ),
    (
        "jwt.validator.class",
        Type.CLASS,
        java_classes.named(f"{_OAUTH}DefaultJwtValidator"),
        MEDIUM,
        "A Java class that checks them.",
    ),
    ("scope", Type.STRING, None, MEDIUM, "What the token is asked for."),
    ("client.credentials.client.id", Type.STRING, None, MEDIUM, "Who asks for it."),
    ("client.credentials.client.secret", Type.PASSWORD, None, MEDIUM, "The secret of who asks."),
    ("assertion.algorithm", Type.STRING, "RS256", MEDIUM, "How an assertion is signed."),
    ("assertion.claim.aud", Type.STRING, None, MEDIUM, "For whom it is."),
    ("assertion.claim.exp.seconds", Type.INT, 300, LOW, "How long it holds."),
    ("assertion.claim.iss", Type.STRING, None, MEDIUM, "Who issued it."),
    ("assertion.claim.jti.include", Type.BOOLEAN, False, MEDIUM, "Whether it gets an id."),
    ("assertion.claim.nbf.seconds", Type.INT, 60, LOW, "How long ago it begins to hold."),
    ("assertion.claim.sub", Type.STRING, None, MEDIUM, "Whom it is about."),
    ("assertion.file", Type.STRING, None, MEDIUM, "A file that has one ready."),
    ("assertion.private.key.file", Type.STRING, None, MEDIUM, "The key that signs it."),
    ("assertion.private.key.passphrase", Type.PASSWORD, None, MEDIUM, "Opens that key."),
    ("assertion.template.file", Type.STRING, None, MEDIUM, "Further claims and headers."),
    ("scope.claim.name", Type.STRING, "scope", LOW, "Where the token names its scope."),
    ("sub.claim.name", Type.STRING, "sub", LOW, "Where it names its subject."),
    ("token.endpoint.url", Type.STRING, None, MEDIUM, "Where tokens are fetched."),
    ("jwks.endpoint.url", Type.STRING, None, MEDIUM, "Where keys that check them are."),
    ("jwks.endpoint.refresh.ms", Type.LONG, 3_600_000, LOW, "How often those are fetched."),
    ("jwks.endpoint.retry.backoff.max.ms", Type.LONG, 10_000, LOW, "The longest wait for them."),
    ("jwks.endpoint.retry.backoff.ms", Type.LONG, 100, LOW, "The first wait for them."),
    ("clock.skew.seconds", Type.INT, 30, LOW, "How far clocks may differ."),
    ("expected.audience", Type.LIST, [], HIGH, "For whom tokens must be."),
    ("expected.issuer", Type.STRING, None, HIGH, "Who must have issued them."),
    ("header.urlencode", Type.BOOLEAN, False, LOW, "Whether credentials are URL-encoded first."),
)
_VALIDATORS: dict[str, config_validators.Validator] = {
    "sasl.login.refresh.window.factor": _between(at_least=0.5, at_most=1.0),
    "sasl.login.refresh.window.jitter": _between(at_least=0.0, at_most=0.25),
    "sasl.login.refresh.min.period.seconds": _between(at_least=0, at_most=900),
    "sasl.login.refresh.buffer.seconds": _between(at_least=0, at_most=3600),
    "sasl.oauthbearer.assertion.algorithm": config_validators.CaseInsensitiveValidString(
        "ES256", "RS256"
    ),
    "sasl.oauthbearer.assertion.claim.exp.seconds": _between(at_least=0, at_most=86_400),
    "sasl.oauthbearer.assertion.claim.nbf.seconds": _between(at_least=0, at_most=3600),
}


def define_security(into: config_def.ConfigDef) -> config_def.ConfigDef:
    """All keys but the servers, in Java's order."""
    into.define(
        PROTOCOL,
        Type.STRING,
        "PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL.",
        default="PLAINTEXT",
        validator=config_validators.CaseInsensitiveValidString(*PROTOCOLS),
        importance=MEDIUM,
    )
    into.define(
        "config.providers",
        Type.LIST,
        "Names of the providers that fill ${…} in.",
        default=[],
        validator=NAMES_ONCE,
        importance=LOW,
    )
    families = (("ssl.", _SSL), ("sasl.", _SASL), ("sasl.oauthbearer.", _BEARER))
    for prefix, rows in families:
        for name, of, default, importance, text in rows:
            key = prefix + name
            default_validator = NAMES_ONCE if of is Type.LIST else None
            into.define(
                key,
                of,
                text,
                default=default,
                validator=_VALIDATORS.get(key, default_validator),
                importance=importance,
            )
    return into


SECURITY = define_security(config_def.ConfigDef())
CLIENT: frozenset[str] = (frozenset(SECURITY.keys) | {BOOTSTRAP}) - {"config.providers"}
"""What plain properties of a cluster may hand on to its clients."""
