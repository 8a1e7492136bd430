"""Which mechanism reads what; errors: test_security_settings.py, test_oauth_settings.py."""

from __future__ import annotations

from connect_runtime.wire.codec import sasl_settings, setting_account, tls_settings

MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule required"


def no_file(*_: str) -> tls_settings.Store:
    raise AssertionError(_)


def read(**properties: str) -> tuple[sasl_settings.Sasl, list[setting_account.SettingError]]:
    given = {f"sasl.{key.replace('__', '.')}": value for key, value in properties.items()}
    account = setting_account.Account(given)
    files = tls_settings.Files(text=lambda path: "", store=no_file)
    return sasl_settings.read(account, files), account.errors


def test_a_name_and_a_password_are_the_login_modules():
    found, errors = read(
        mechanism="scram-sha-256", jaas__config=f"{MODULE} username=alice password=hunter2;"
    )
    assert not errors
    assert (found.mechanism, found.username, found.password) == (
        "SCRAM-SHA-256",
        "alice",
        "hunter2",
    )
    assert found.oauth is None
    assert "hunter2" not in repr(found)


def test_a_client_of_an_issuer_is_called_by_its_id():
    found, errors = read(
        mechanism="OAUTHBEARER",
        oauthbearer__token__endpoint__url="http://id/token",
        oauthbearer__client__credentials__client__id="mm2",
        oauthbearer__client__credentials__client__secret="s3cret",
    )
    assert not errors
    assert (found.mechanism, found.username, found.password) == ("OAUTHBEARER", "mm2", None)
    assert found.oauth is not None
    assert "s3cret" not in repr(found)


def test_an_unknown_mechanism_reads_nothing_more():
    found, errors = read(mechanism="DIGEST-MD5", jaas__config="nonsense")
    assert (found.username, found.oauth) == (None, None)
    assert [error.key for error in errors] == ["sasl.mechanism"]
