from __future__ import annotations

import pytest

from connect_runtime.wire.codec import vendor_logins


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
    advice = vendor_logins.advice(class_name)
    assert advice is not None
    assert other_way in advice


def test_anybody_elses_class_is_unknown():
    assert vendor_logins.advice("com.example.Login") is None


def test_the_mechanisms_that_need_such_classes_are_explained():
    assert "Kerberos" in vendor_logins.MECHANISMS["GSSAPI"]
    assert "MSK" in vendor_logins.MECHANISMS["AWS_MSK_IAM"]
