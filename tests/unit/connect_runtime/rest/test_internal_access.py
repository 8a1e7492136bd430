"""Who may send the internal requests: every protocol, with and without basic authentication, of a
worker in a group and of one alone. Real herders, asked over their REST API."""

from __future__ import annotations

import base64
import functools
import itertools

import pytest

from connect_runtime.group.connect_protocol import ConnectProtocol
from connect_runtime.herder import session_keys
from connect_runtime.storage.cluster_config_state import SessionKey
from tests.fakes import herding
from tests.fakes.herding import Cluster
from tests.support import eventually
from tests.support.rest import Rest

SESSIONED = ConnectProtocol.SESSIONED
USERS = {"alice": "secret"}
PASSWORD = {"Authorization": f"Basic {base64.b64encode(b'alice:secret').decode()}"}
FOREIGN_KEY = SessionKey(key=b"x" * 32, algorithm="HmacSHA256", created_ms=1)
JSON = {"Content-Type": "application/json"}
TASKS, FENCE = ("POST", "/connectors/c/tasks", b"[]"), ("PUT", "/connectors/c/fence", b"")
CARRIED_OUT = {TASKS: (204, ""), FENCE: (400, "Connector c is not a source connector")}
IN_STANDALONE = {
    TASKS: (
        500,
        "Kafka Connect in standalone mode does not support externally setting task configurations.",
    ),
    FENCE: (
        500,
        "Kafka Connect in standalone mode does not support exactly-once source connectors.",
    ),
}
NO_PASSWORD = (401, "User cannot access the resource.")
UNSIGNED = (400, "Internal request missing required signature")
FORGED = (403, "Internal request contained invalid signature.")

MATRIX = pytest.mark.parametrize(
    ("signature", "has_password", "endpoint"),
    list(itertools.product(["none", "forged", "right"], [False, True], [TASKS, FENCE])),
    ids=lambda each: str(each[1]) if isinstance(each, tuple) else str(each),
)


@pytest.fixture(scope="module")
def in_group():
    """A leader of a group for each protocol, with connector `c`."""
    clusters = {each: Cluster() for each in ConnectProtocol}
    nodes = {}
    for speaks, cluster in clusters.items():
        nodes[speaks] = node = cluster.node("a", offers=speaks).start()
        eventually.eventually(node.herder.is_ready, herding.WAIT_S)
        node.put("c")
    for speaks, node in nodes.items():
        if speaks.signs_requests:
            eventually.eventually(functools.partial(key_of, node), herding.WAIT_S)
    yield nodes
    for each in clusters.values():
        each.stop()


@pytest.fixture(scope="module")
def alone():
    node = Cluster().alone().start()
    eventually.eventually(node.herder.is_ready, herding.WAIT_S)
    node.put("c")
    yield node
    node.stop()


def key_of(node):
    return node.configs.snapshot().session_key


def ask(node, endpoint, *, signature, has_password, users):
    method, path, body = endpoint
    headers = {**JSON, **(PASSWORD if has_password else {})}
    if signature != "none":
        key = key_of(node) if signature == "right" else None
        headers |= session_keys.build_signature_headers(
            key or FOREIGN_KEY, body, algorithm="HmacSHA256"
        )
    answer = Rest(node.herder, users=users)(method, path, content=body, headers=headers)
    is_json = answer.headers.get("content-type", "").startswith("application/json")
    return answer.status_code, answer.json()["message"] if is_json else answer.text


@MATRIX
@pytest.mark.parametrize("speaks", list(ConnectProtocol), ids=lambda each: each.name.lower())
def test_with_basic_authentication_a_password_or_a_right_signature_is_needed(
    in_group, speaks, signature, has_password, endpoint
):
    found = ask(
        in_group[speaks], endpoint, signature=signature, has_password=has_password, users=USERS
    )
    if speaks.signs_requests:
        expected = {"none": UNSIGNED, "forged": FORGED, "right": CARRIED_OUT[endpoint]}[signature]
        if signature == "none" and not has_password:
            expected = NO_PASSWORD
    else:
        expected = CARRIED_OUT[endpoint] if has_password else NO_PASSWORD
    assert found == expected


@MATRIX
@pytest.mark.parametrize("speaks", list(ConnectProtocol), ids=lambda each: each.name.lower())
def test_without_basic_authentication_it_is_as_in_java(
    in_group, speaks, signature, has_password, endpoint
):
    found = ask(
        in_group[speaks], endpoint, signature=signature, has_password=has_password, users=None
    )
    if not speaks.signs_requests:
        signature = "right"  # nobody looks at it
    assert found == {"none": UNSIGNED, "forged": FORGED, "right": CARRIED_OUT[endpoint]}[signature]


@MATRIX
@pytest.mark.parametrize("users", [None, USERS], ids=["open", "basic"])
def test_a_worker_alone_refuses_all_of_them(alone, users, signature, has_password, endpoint):
    found = ask(alone, endpoint, signature=signature, has_password=has_password, users=users)
    has_access = users is None or has_password
    assert found == (IN_STANDALONE[endpoint] if has_access else NO_PASSWORD)


@pytest.mark.parametrize("endpoint", [TASKS, FENCE], ids=["tasks", "fence"])
def test_an_older_member_that_joins_opens_nothing(endpoint):
    """The group falls back to its protocol: nothing is signed any more, and nothing let in."""
    cluster = Cluster()
    node = cluster.node("a").start()
    eventually.eventually(lambda: key_of(node) is not None, herding.WAIT_S)
    node.put("c")
    other = cluster.node("b", offers=ConnectProtocol.EAGER).start()
    eventually.eventually(
        lambda: other.herder.is_ready() and node.standing.protocol is ConnectProtocol.EAGER,
        herding.WAIT_S,
    )
    try:
        for signature in ("none", "forged", "right"):
            found = ask(node, endpoint, signature=signature, has_password=False, users=USERS)
            assert found == NO_PASSWORD, signature
    finally:
        cluster.stop()


@pytest.mark.parametrize("signature", ["none", "forged", "right"])
@pytest.mark.parametrize("endpoint", [TASKS, FENCE], ids=["tasks", "fence"])
def test_a_group_that_falls_back_while_a_request_is_read_lets_it_in_only_if_signed(
    in_group, monkeypatch, signature, endpoint
):
    """Basic authentication saw `sessioned`, and the endpoint an older protocol."""
    node = in_group[SESSIONED]
    monkeypatch.setattr(node.standing, "protocol", ConnectProtocol.COMPATIBLE)
    monkeypatch.setattr(node.herder, "signs_internal_requests", lambda: True)
    verify = type(node.herder).verify_request_signature

    def after_fallback(self, body, headers, *, must_be_signed=False):
        monkeypatch.setattr(node.herder, "signs_internal_requests", lambda: False)
        return verify(self, body, headers, must_be_signed=must_be_signed)

    monkeypatch.setattr(type(node.herder), "verify_request_signature", after_fallback)
    expected = {"none": NO_PASSWORD, "forged": FORGED, "right": CARRIED_OUT[endpoint]}
    found = ask(node, endpoint, signature=signature, has_password=False, users=USERS)
    assert found == expected[signature]
