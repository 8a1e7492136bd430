"""Class names of Java, and of Python."""

from __future__ import annotations

import sys

import pytest

from connect_runtime.api import config_types
from connect_runtime.plugins import compatible_kafka_version
from mm2.config import java_class_placeholders
from mm2.topics.replication_policy import DefaultReplicationPolicy


def test_a_class_of_java_is_shown_by_its_name_and_is_one_type():
    found = java_class_placeholders.resolve_class(java_class_placeholders.IDENTITY_POLICY)
    assert found is java_class_placeholders.resolve_class(java_class_placeholders.IDENTITY_POLICY)
    assert (
        config_types.format_value_for_message(found)
        == f"class {java_class_placeholders.IDENTITY_POLICY}"
    )
    assert (
        java_class_placeholders.get_java_class_name(found)
        == java_class_placeholders.IDENTITY_POLICY
    )


def test_our_connectors_are_of_the_same_release_as_all_that_is_shipped():
    assert java_class_placeholders.KAFKA_VERSION == compatible_kafka_version.KAFKA_VERSION


def test_a_class_of_python_is_itself():
    found = java_class_placeholders.resolve_class(
        "mm2.topics.replication_policy.DefaultReplicationPolicy"
    )
    assert found is DefaultReplicationPolicy
    assert java_class_placeholders.get_java_class_name(found) is None


@pytest.mark.parametrize(
    "name",
    [
        "org.apache.kafka.connect.mirror.DefaultReplicationPolcy",
        "org.apache.kafka.connect.mirror.",
        "com.acme.Filter",
        "",
        "x",
    ],
)
def test_what_is_no_class_is_said(name):
    with pytest.raises(LookupError):
        java_class_placeholders.resolve_class(name)


def test_classes_of_javas_clients_are_known_by_their_package():
    name = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
    assert (
        java_class_placeholders.get_java_class_name(java_class_placeholders.resolve_class(name))
        == name
    )


@pytest.mark.parametrize("code", ["", "raise SystemExit('ended')", "raise ValueError('broken')"])
def test_a_module_is_imported_for_an_operators_file_alone(tmp_path, monkeypatch, code):
    (tmp_path / "users_policy.py").write_text(f"{code}\nclass Policy: ...")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "users_policy", raising=False)
    with pytest.raises(LookupError, match=r"plugin\.path"):
        java_class_placeholders.resolve_class("users_policy.Policy")
    assert "users_policy" not in sys.modules
    if code:
        with pytest.raises(LookupError, match=r"ended|broken"):
            java_class_placeholders.import_class("users_policy:Policy")
        return
    found = java_class_placeholders.import_class("users_policy:Policy")
    assert java_class_placeholders.resolve_class("users_policy.Policy") is found
    monkeypatch.delitem(sys.modules, "users_policy")
