from __future__ import annotations

import base64

import pytest

from connect_runtime.api.errors import ConfigError
from connect_runtime.herder import session_keys
from connect_runtime.rest import basic_auth
from connect_runtime.rest.rest_settings import RestListener, RestSettings
from connect_runtime.storage.cluster_config_state import SessionKey
from tests.fakes.rest_herder import FakeHerder
from tests.support import rest
from tests.support.rest import Rest

USERS = {"alice": "pass:wörd", "empty": ""}


def header(text: str, scheme: str = "Basic") -> dict[str, str]:
    return {"Authorization": f"{scheme} {base64.b64encode(text.encode()).decode()}"}


@pytest.fixture
def herder() -> FakeHerder:
    made = FakeHerder()
    made.make("c")
    return made


@pytest.mark.parametrize("scheme", ["Basic", "basic", "BASIC"])
def test_a_user_enters(herder: FakeHerder, scheme: str) -> None:
    ask = Rest(herder, users=USERS)
    answer = ask("GET", "/connectors", headers=header("alice:pass:wörd", scheme))
    assert answer.status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {},
        header("alice:wrong"),
        header("alice"),
        header(":pass:wörd"),
        header("nobody:"),
        header("alice:pass:wörd", "Bearer"),
        {"Authorization": "Basic"},
        {"Authorization": "Basic !!!"},
    ],
    ids=["none", "wrong", "no colon", "no user", "unknown", "scheme", "empty", "no base64"],
)
@pytest.mark.parametrize("path", ["/connectors", "/", "/nope"])
def test_nobody_else_does(herder: FakeHerder, headers: dict[str, str], path: str) -> None:
    answer = Rest(herder, users=USERS)("GET", path, headers=headers)
    assert (answer.status_code, answer.text) == (401, "User cannot access the resource.")
    assert answer.headers["content-type"].startswith("text/plain")


def test_an_empty_password_is_a_password(herder: FakeHerder) -> None:
    ask = Rest(herder, users=USERS)
    assert ask("GET", "/connectors", headers=header("empty:")).status_code == 200
    assert ask("GET", "/connectors", headers=header("empty:x")).status_code == 401


def test_without_users_everybody_enters(herder: FakeHerder) -> None:
    assert Rest(herder, users={})("GET", "/connectors").status_code == 200


KEY = SessionKey(key=b"k" * 32, algorithm="HmacSHA256", created_ms=0)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("POST", "/connectors/c/tasks", 204),
        ("POST", "/connectors/a%2Fb/tasks/", 404),
        ("PUT", "/connectors/c/fence", 204),
        ("GET", "/connectors/c/tasks", 401),
        ("PUT", "/connectors/c/tasks", 401),
        ("POST", "/connectors/c/fence", 401),
        ("POST", "/connectors/c/tasks/0/restart", 401),
        ("POST", "/connectors/c/d/tasks", 401),
    ],
)
def test_workers_sign_their_two_requests_instead(
    herder: FakeHerder, *, method: str, path: str, status: int
) -> None:
    herder.signed, herder.key = True, KEY
    content = b"[]" if "tasks" in path else b""
    headers = {
        "Content-Type": "application/json",
        **session_keys.build_signature_headers(KEY, content, algorithm="HmacSHA256"),
    }
    ask = Rest(herder, users=USERS)
    assert ask(method, path, content=content, headers=headers).status_code == status
    without = {"Content-Type": "application/json"}
    assert ask(method, path, content=content, headers=without).status_code == 401


def test_administrators_are_asked_too(herder: FakeHerder) -> None:
    listener = RestListener(scheme="http", host="", port=1)
    configured = RestSettings(admin_listeners=(listener,))
    apps = Rest(herder, configured=configured, users=USERS).apps
    assert apps.admin is not None
    assert rest.ask(apps.admin, "GET", "/admin/loggers").status_code == 401


def test_credentials() -> None:
    assert basic_auth.parse_credentials(header("a:b:c")["Authorization"]) == ("a", "b:c")
    assert basic_auth.parse_credentials(None) is None


MODULE = "org.apache.kafka.connect.rest.basic.auth.extension.PropertyFileLoginModule"


def test_the_file_of_users_is_found_in_a_jaas_file() -> None:
    text = f"""
    // KafkaConnect {{ commented out }};
    KafkaClient {{ a.B required file="other"; }};
    /* and
       so on */
    KafkaConnect {{
        {MODULE} required   # the only one
        file="/etc/users//x.properties";
    }};
    """
    assert basic_auth.find_users_file(text) == "/etc/users//x.properties"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "no entry KafkaConnect"),
        ("KafkaConnectX { a required; };", "no entry KafkaConnect"),
        ("KafkaConnect { };", "the entry must end with a semicolon"),
        ("KafkaConnect { com.sun.Ldap required; };", "com.sun.Ldap is not supported"),
        (f"KafkaConnect {{ {MODULE} required; }};", "option 'file' of .* is missing"),
    ],
)
def test_a_jaas_file_without_users(text: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        basic_auth.find_users_file(text)
