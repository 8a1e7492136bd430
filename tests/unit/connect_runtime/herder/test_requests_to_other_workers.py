from __future__ import annotations

import pytest

from connect_runtime.herder import requests_to_other_workers
from connect_runtime.storage.cluster_config_state import SessionKey

KEY = SessionKey(key=b"0123456789abcdef0123456789abcdef", algorithm="HmacSHA256", created_ms=0)


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("plain", "/connectors/plain/tasks"),
        ("a/b c", "/connectors/a%2Fb%20c/tasks"),
        ("ä?", "/connectors/%C3%A4%3F/tasks"),
    ],
)
def test_a_path_holds_any_name(name: str, path: str) -> None:
    assert requests_to_other_workers.build_connector_path(name, "tasks") == path


def test_task_configs_are_signed_as_java_signs_them() -> None:
    call = requests_to_other_workers.build_task_configs_request(
        "http://a:1", "c", [{"a": "1"}, {"a": "2"}], key=KEY, algorithm="HmacSHA256"
    )
    assert (call.method, call.path) == ("POST", "/connectors/c/tasks")
    assert call.body == b'[{"a":"1"},{"a":"2"}]'
    assert call.signature == {
        "X-Connect-Authorization": "K9wTd/9wCAUEFCuD9HP/dQ4KE+q4E46XwIm7Ij5RDwc=",
        "X-Connect-Request-Signature-Algorithm": "HmacSHA256",
    }


def test_a_wish_to_fence_signs_an_empty_body() -> None:
    call = requests_to_other_workers.build_fence_request(
        "http://a:1", "c", key=KEY, algorithm="HmacSHA256"
    )
    assert (call.method, call.path, call.body) == ("PUT", "/connectors/c/fence", None)
    signature = call.signature["X-Connect-Authorization"]
    assert signature == "eWzTB4rxRjZ1PSaztVVUIv9Vo+Jhz4R7SOlTcbm9CqI="


def test_without_a_key_nothing_is_signed() -> None:
    assert (
        requests_to_other_workers.build_fence_request(
            "http://a:1", "c", key=None, algorithm="HmacSHA256"
        ).signature
        == {}
    )


def test_secrets_stay_out_of_the_repr() -> None:
    call = requests_to_other_workers.build_task_configs_request(
        "u", "c", [{"password": "geheim"}], key=KEY, algorithm="HmacSHA256"
    )
    assert "geheim" not in repr(call)
    assert "X-Connect" not in repr(call)
