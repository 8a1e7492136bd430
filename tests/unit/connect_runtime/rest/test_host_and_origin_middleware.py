"""DNS rebinding and requests of pages from elsewhere, at the REST API."""

from __future__ import annotations

import pytest

from connect_runtime.api.errors import ConfigError
from connect_runtime.base import host_and_origin_rules
from connect_runtime.rest import rest_app, rest_settings
from connect_runtime.rest.rest_settings import (
    AdvertisedAddress,
    CorsSettings,
    RestListener,
    RestSettings,
)
from tests.fakes.rest_herder import FakeHerder
from tests.support import rest
from tests.support.rest import Rest

RESTART = ("POST", "/connectors/c/restart")


@pytest.fixture
def herder():
    made = FakeHerder()
    made.make("c")
    return made


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "OPTIONS"])
def test_under_the_name_of_another_page_nothing_is_told_or_done(herder, method):
    answer = Rest(herder)(method, "/connectors/c", headers={"Host": "evil.example:8083"})
    assert answer.status_code == 403
    assert answer.json()["error_code"] == 403
    assert host_and_origin_rules.ALLOWED_HOST_NAMES_KEY in answer.json()["message"]
    assert herder.submitted == []


@pytest.mark.parametrize("host", ["worker-1.example.org:8083", "a.b.internal", "10.0.0.1:8083"])
def test_configured_and_advertised_names_are_served(herder, host):
    configured = RestSettings(
        allowed_hosts=("*.internal",), advertised=AdvertisedAddress(host="worker-1.example.org")
    )
    served = Rest(herder, configured=configured)
    assert served("GET", "/connectors", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "foreign", [{"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "cross-site"}]
)
def test_a_page_from_elsewhere_changes_nothing(herder, foreign):
    served = Rest(herder)
    assert served(*RESTART, headers=foreign).status_code == 403
    assert served("PUT", "/connectors/c/pause", headers=foreign).status_code == 403
    assert herder.submitted == []
    assert served("GET", "/connectors", headers=foreign).status_code == 200


@pytest.mark.parametrize(
    "sent", [{"Origin": "http://evil:8083"}, {"Sec-Fetch-Site": "same-origin"}]
)
def test_a_name_of_the_local_network_lets_no_page_change_anything(herder, sent):
    """The network may resolve any name without a dot to this address."""
    host = {"Host": "evil:8083"}
    served = Rest(herder)
    answer = served(*RESTART, headers=host | sent)
    assert answer.status_code == 403
    assert host_and_origin_rules.ALLOWED_HOST_NAMES_KEY in answer.json()["message"]
    assert herder.submitted == []
    assert served("GET", "/connectors", headers=host | sent).status_code == 200
    assert served(*RESTART, headers=host).status_code == 204, "no browser: a service's own name"
    own = Rest(herder, configured=RestSettings(allowed_hosts=("evil",)))
    assert own(*RESTART, headers=host | sent).status_code == 204


def test_origins_that_are_allowed_may_change_things(herder):
    access = CorsSettings(origins="http://panel.example")
    served = Rest(herder, configured=RestSettings(access=access))
    panel = {"Origin": "http://panel.example", "Sec-Fetch-Site": "cross-site"}
    assert served(*RESTART, headers=panel).status_code == 204
    assert served(*RESTART, headers={"Origin": "http://evil.example"}).status_code == 403


def test_the_administrators_listener_is_checked_too(herder):
    admin = RestListener(scheme="http", host="127.0.0.1", port=0)
    configured = RestSettings(admin_listeners=(admin,))
    apps = rest_app.build_applications(rest.parts(herder), configured)
    assert apps.admin is not None
    rebound = {"Host": "evil.example"}
    assert rest.ask(apps.admin, "GET", "/admin/loggers", headers=rebound).status_code == 403
    assert rest.ask(apps.admin, "GET", "/admin/loggers").status_code == 200


@pytest.mark.parametrize("name", ["http://a.example", "a.example:80", "a..b", "*a.example", "a b"])
def test_what_is_no_name_is_refused(name):
    with pytest.raises(ConfigError, match=r"^rest.allowed.host.names: '.*' is not a host name"):
        rest_settings.read_rest_settings({host_and_origin_rules.ALLOWED_HOST_NAMES_KEY: name})


def test_names_are_a_list():
    found = rest_settings.read_rest_settings(
        {host_and_origin_rules.ALLOWED_HOST_NAMES_KEY: "a.example, *.b.example"}
    )
    assert found.allowed_hosts == ("a.example", "*.b.example")


@pytest.mark.parametrize("path", ["/health", "/health/"])
def test_probes_ask_for_health_under_any_name(herder, path):
    name = {"Host": "evil.example:8083"}
    assert Rest(herder)("GET", path, headers=name).status_code == 200
    assert Rest(herder)("GET", f"{path}x", headers=name).status_code == 403
    assert Rest(herder)("POST", path, headers=name).status_code == 403
