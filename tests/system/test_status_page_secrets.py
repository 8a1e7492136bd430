"""What is served of a process that was given a password tells it to nobody, least of all where the
login fails."""

from __future__ import annotations

import functools
import json
import re
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib import parse

import pytest

from mm2.sandbox.sandbox_cluster import SandboxCluster
from tests.support import content, eventually, kafka, mirror
from tests.support.mirror import Mirror

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]

SECRET = "no-password-of-anybody-7f3a"
FROM_REFUSED, TO_REFUSED, SOUND = "vault->west", "east->vault", "east->west"
FLOW_DOCUMENTS = ("flow", "groups", "incidents", "plan")
OTHERS = (
    *("/", "/ui", "/ui/ui.js", "/ui/api/overview", "/metrics/java"),
    *("/health/live", "/health/ready", "/health/replicating"),
)
SOON_S = 90.0


@pytest.fixture
def url(
    tmp_path: Path,
    own_cluster: Callable[..., SandboxCluster],
    east: SandboxCluster,
    west: SandboxCluster,
    topic: Callable[..., str],
) -> Iterator[str]:
    """A flow that works, and flows from and to a cluster that refuses the password of the file."""
    source, target = east.client_properties(), west.client_properties()
    orders = kafka.create_topic(source, topic("orders"))
    kafka.produce(source, orders, content.some())
    refused = own_cluster("vault", users=["alice"]).client_properties("alice")
    refused["sasl.jaas.config"] = re.sub(
        r'password="[^"]+"', f'password="{SECRET}"', refused["sasl.jaas.config"]
    )
    given = mirror.settings(source, target, topics=[orders], spark={"engine": "inline"})
    given["clusters"]["vault"] = refused
    sound = given["flows"][0]
    given["flows"] += [{**sound, "from": "vault"}, {**sound, "to": "vault"}]
    with Mirror(tmp_path, given) as run:
        assert SECRET in run.settings_path.read_text()
        yield run.await_log(r"the status page is available at (\S+)/ui")[1]
        assert SECRET not in run.log


def get(url: str) -> str:
    """Asked as the page asks; what is refused or failing is told, too."""
    asked = urllib.request.Request(url, headers={"X-Requested-With": "mm2"})
    try:
        with urllib.request.urlopen(asked, timeout=20.0) as answer:
            return f"{answer.headers}{answer.read().decode()}"
    except urllib.error.HTTPError as error:
        with error:
            return f"{error.headers}{error.read().decode()}"


def found(text: str) -> dict[str, Any]:
    return dict(json.loads(text[text.index("{") :]))


def of_flow(url: str, name: str, flow: str) -> str:
    return get(f"{url}/ui/api/{name}?look=1&flow={parse.quote(flow)}")


def test_no_document_tells_a_password_not_even_of_a_login_that_fails(url: str):
    told = [("flow", FROM_REFUSED), ("flow", TO_REFUSED), ("incidents", TO_REFUSED)]
    refused = {each: awaited(functools.partial(refusal, url, *each)) for each in told}
    plan = awaited(functools.partial(answered, url, "plan", TO_REFUSED))
    asked = {
        (name, flow): of_flow(url, name, flow)
        for name in FLOW_DOCUMENTS
        for flow in (FROM_REFUSED, TO_REFUSED, SOUND)
    }
    asked |= refused | {("plan", TO_REFUSED): plan}
    asked |= {(path, ""): get(f"{url}{path}") for path in OTHERS}
    assert [each for each, text in asked.items() if SECRET in text] == []


def awaited(told: Callable[[], str]) -> str:
    return eventually.eventually(told, SOON_S)


def refusal(url: str, name: str, flow: str) -> str:
    """Once it says that the login has failed."""
    text = of_flow(url, name, flow)
    return text if re.search("uthentic|password", text) else ""


def answered(url: str, name: str, flow: str) -> str:
    """Once a command has ended: what it found, or why it found nothing."""
    text = of_flow(url, name, flow)
    told = found(text)
    return text if not told["running"] and (told["result"] or told["error"]) else ""
