from __future__ import annotations

import pytest

from connect_runtime.protocol import jaas
from connect_runtime.protocol.jaas import JaasConfigError


@pytest.mark.parametrize(
    ("class_name", "other_way"),
    [
        ("software.amazon.msk.auth.iam.IAMLoginModule", "SCRAM-SHA-512"),
        ("software.amazon.msk.auth.iam.IAMOAuthBearerLoginCallbackHandler", "SCRAM-SHA-512"),
        ("com.google.cloud.hosted.kafka.auth.GcpLoginCallbackHandler", "PLAIN"),
        ("com.azure.identity.SomeHandler", "OAUTHBEARER"),
        ("com.microsoft.azure.servicebus.CustomAuthenticateCallbackHandler", "OAUTHBEARER"),
        ("io.strimzi.kafka.oauth.client.JaasClientOauthLoginCallbackHandler", "clientSecret"),
        ("com.sun.security.auth.module.Krb5LoginModule", "TLS certificates"),
    ],
)
def test_a_vendors_class_is_told_apart_and_another_way_named(class_name, other_way):
    advice = jaas.suggest_vendor_class_replacement(class_name)
    assert advice is not None
    assert other_way in advice


def test_anybody_elses_class_is_unknown():
    assert jaas.suggest_vendor_class_replacement("com.example.Login") is None


def test_the_mechanisms_that_need_such_classes_are_explained():
    assert "Kerberos" in jaas.VENDOR_MECHANISM_ADVICE["GSSAPI"]
    assert "MSK" in jaas.VENDOR_MECHANISM_ADVICE["AWS_MSK_IAM"]


SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


@pytest.mark.parametrize(
    ("text", "options"),
    [
        (f'{SCRAM} required username="alice" password="secret";', ("alice", "secret")),
        (f'{SCRAM} REQUIRED username="alice" password="secret";', ("alice", "secret")),
        (f"{SCRAM} required username=alice password=secret ;", ("alice", "secret")),
        (
            f"{SCRAM}\n  required\n  username='al ice'\n  password='se;c=ret';\n",
            ("al ice", "se;c=ret"),
        ),
        (rf'{SCRAM} required username="a\"b" password="c\\d\n";', ('a"b', "c\\d\n")),
        (f'{SCRAM} requisite username = "a" password="";', ("a", "")),
    ],
)
def test_what_java_accepts(text, options):
    module = jaas.parse_jaas_config(text)
    assert module.simple_name == "ScramLoginModule"
    assert (module.options["username"], module.options["password"]) == options
    assert "password" not in repr(module)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "end with a semicolon"),
        (f'{SCRAM} required username="a" password="hunter2"', "end with a semicolon"),
        (f'{SCRAM} username="a" password="hunter2";', "start with a login module class and one of"),
        ('required password="hunter2";', "start with"),
        (f'{SCRAM} required password "hunter2";', "form key=value"),
        (f'{SCRAM} required password="hunter2" x;', "form key=value"),
        (f'{SCRAM} required password="hunter2;', "a closing quotation mark is missing"),
        (f'{SCRAM} required a="hunter2"; {SCRAM} required b=c;', "one login module"),
    ],
)
def test_problems_are_named_and_never_quoted(text, problem):
    with pytest.raises(JaasConfigError, match=problem) as caught:
        jaas.parse_jaas_config(text)
    assert "hunter2" not in str(caught.value)
