from __future__ import annotations

from mm2.config.mm2_settings import ClientProperties


def test_client_properties_are_a_mapping_that_prints_without_secrets():
    properties = ClientProperties({"a": "1", "b": "hunter2"}, secrets=frozenset({"b"}))
    assert dict(properties) == {"a": "1", "b": "hunter2"}
    assert len(properties) == 2
    assert "hunter2" not in repr(properties)
    assert properties.redact_secrets() == {"a": "1", "b": "[hidden]"}
