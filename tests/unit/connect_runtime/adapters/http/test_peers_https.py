"""Workers that roll from http to https pass requests on to each other at every step."""

from __future__ import annotations

import ssl

import httpx
import pytest

from connect_runtime.adapters.http import peers as http_peers
from connect_runtime.core.herder import requests
from connect_runtime.ports import peers
from connect_runtime.rest import app, https, settings
from connect_runtime.system import certificates, clock
from connect_runtime.wire.connection import store_files
from tests.fakes import rest_herder
from tests.support import rest, rest_server

HTTPS = settings.Listener(scheme="https", host="127.0.0.1", port=0)
CREATION = {"name": "c", "config": {"connector.class": "FileStreamSource", "topic": "t"}}


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> https.Https:
    """One certificate for both workers, and their trust in who issued it."""
    folder, wall_ms = tmp_path_factory.mktemp("stores"), clock.SystemClock().wall_ms()
    authority = certificates.Authority.create("test", wall_ms=wall_ms)
    issued = authority.issue("worker", hosts=["127.0.0.1"], wall_ms=wall_ms)
    (folder / "own.pem").write_bytes(issued.certificate_pem + issued.key_pem)
    properties = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": "own.pem",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": authority.certificate_pem.decode(),
    }
    return https.read(properties, files=store_files.below(folder))


def listening(*, both: bool, advertised: str) -> settings.RestSettings:
    one = HTTPS if advertised == "https" else rest_server.LOCAL
    listeners = (rest_server.LOCAL, HTTPS) if both else (one,)
    return rest_server.at(*listeners, advertised=settings.Advertised(scheme=advertised))


@pytest.mark.parametrize(
    ("both", "follower_says", "leader_says"),
    [
        (False, "http", "http"),
        (True, "http", "http"),
        (True, "http", "https"),
        (True, "https", "http"),
        (True, "https", "https"),
        (False, "https", "https"),
    ],
)
def test_a_creation_reaches_the_leader_whichever_way_it_listens(
    secured: https.Https, *, both: bool, follower_says: str, leader_says: str
) -> None:
    """RestForwardingIntegrationTest."""
    leader, follower = rest_herder.FakeHerder(), rest_herder.FakeHerder()
    at_leader = listening(both=both, advertised=leader_says)
    at_follower = listening(both=both, advertised=follower_says)
    others = http_peers.HttpPeers(tls=secured.client, timeout_s=10)
    with (
        rest_server.started(at_leader, main_https=secured) as one,
        rest_server.started(at_follower, main_https=secured) as other,
    ):
        one.attach(app.build(rest.parts(leader), at_leader))
        other.attach(app.build(rest.parts(follower, among=others), at_follower))
        follower.leads, follower.leader_url = False, one.advertised_url
        assert one.advertised_url.startswith(f"{leader_says}://")
        assert other.advertised_url.startswith(f"{follower_says}://")
        with httpx.Client(trust_env=False, verify=secured.client, timeout=10) as client:
            answer = client.post(f"{other.advertised_url}connectors", json=CREATION)
    assert answer.status_code == 201
    assert [type(each) for each in leader.submitted] == [requests.PutConnector]
    assert leader.config().contains("c")


def test_a_leader_of_whom_nobody_is_sure_is_not_asked(secured: https.Https) -> None:
    configured = listening(both=False, advertised="https")
    with rest_server.started(configured, main_https=secured) as leader:
        call = peers.Call(url=leader.advertised_url, method="GET", path="/connectors")
        with pytest.raises(peers.PeerFailed, match="CERTIFICATE_VERIFY_FAILED"):
            http_peers.HttpPeers(tls=ssl.create_default_context()).send_and_wait(call)
