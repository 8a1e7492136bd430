"""Workers that roll from http to https pass requests on to each other at every step."""

from __future__ import annotations

import ssl

import httpx
import pytest

from connect_runtime.herder.herder_requests import PutConnector
from connect_runtime.herder.requests_to_other_workers import PeerRequest, PeerUnavailableError
from connect_runtime.network import keystore_files
from connect_runtime.rest import rest_app, rest_tls
from connect_runtime.rest.rest_client import RestClient
from connect_runtime.rest.rest_settings import AdvertisedAddress, RestListener, RestSettings
from connect_runtime.rest.rest_tls import HttpsContexts
from connect_runtime.system.certificates import CertificateAuthority
from connect_runtime.system.system_clock import SystemClock
from tests.fakes.rest_herder import FakeHerder
from tests.support import rest, rest_server

HTTPS = RestListener(scheme="https", host="127.0.0.1", port=0)
CREATION = {"name": "c", "config": {"connector.class": "FileStreamSource", "topic": "t"}}


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> HttpsContexts:
    """One certificate for both workers, and their trust in who issued it."""
    folder, wall_ms = tmp_path_factory.mktemp("stores"), SystemClock().wall_ms()
    authority = CertificateAuthority.create("test", wall_ms=wall_ms)
    issued = authority.issue_certificate("worker", hosts=["127.0.0.1"], wall_ms=wall_ms)
    (folder / "own.pem").write_bytes(issued.certificate_pem + issued.key_pem)
    properties = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": "own.pem",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": authority.certificate_pem.decode(),
    }
    return rest_tls.read_https_contexts(properties, files=keystore_files.create_store_files(folder))


def listening(*, both: bool, advertised: str) -> RestSettings:
    one = HTTPS if advertised == "https" else rest_server.LOCAL
    listeners = (rest_server.LOCAL, HTTPS) if both else (one,)
    return rest_server.at(*listeners, advertised=AdvertisedAddress(scheme=advertised))


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
    secured: HttpsContexts, *, both: bool, follower_says: str, leader_says: str
) -> None:
    """RestForwardingIntegrationTest."""
    leader, follower = FakeHerder(), FakeHerder()
    at_leader = listening(both=both, advertised=leader_says)
    at_follower = listening(both=both, advertised=follower_says)
    others = RestClient(tls=secured.client, timeout_s=10)
    with (
        rest_server.started(at_leader, main_https=secured) as one,
        rest_server.started(at_follower, main_https=secured) as other,
    ):
        one.attach_applications(rest_app.build_applications(rest.parts(leader), at_leader))
        other.attach_applications(
            rest_app.build_applications(rest.parts(follower, among=others), at_follower)
        )
        follower.leads, follower.leader_url = False, one.advertised_url
        assert one.advertised_url.startswith(f"{leader_says}://")
        assert other.advertised_url.startswith(f"{follower_says}://")
        with httpx.Client(trust_env=False, verify=secured.client, timeout=10) as client:
            answer = client.post(f"{other.advertised_url}connectors", json=CREATION)
    assert answer.status_code == 201
    assert [type(each) for each in leader.submitted] == [PutConnector]
    assert leader.get_config_state().has_connector("c")


def test_a_leader_of_whom_nobody_is_sure_is_not_asked(secured: HttpsContexts) -> None:
    configured = listening(both=False, advertised="https")
    with rest_server.started(configured, main_https=secured) as leader:
        call = PeerRequest(url=leader.advertised_url, method="GET", path="/connectors")
        with pytest.raises(PeerUnavailableError, match="CERTIFICATE_VERIFY_FAILED"):
            RestClient(tls=ssl.create_default_context()).send_and_wait(call)
