from __future__ import annotations

import pathlib

import pytest

from connect_runtime.app.settings import account, problems, properties_file

CONTENT = """config.providers=env
config.providers.env.class=org.apache.kafka.common.config.provider.EnvVarConfigProvider
session.timeout.ms=soon
sasl.jaas.config=hunter2
group.id=${env:GROUP}
listeners=${env:LISTENERS}
topic=${env:GONE}
"""


@pytest.fixture
def made() -> account.Account:
    given = properties_file.parse(
        CONTENT,
        file="w",
        folder=pathlib.Path("/"),
        environment={"GROUP": "g", "LISTENERS": "http://:1,ftp://x"},
    )
    return account.Account(given)


def told(made: account.Account) -> list[str]:
    with pytest.raises(problems.SettingsError) as raised:
        made.finish()
    return str(raised.value).splitlines()


def test_every_problem_is_told_with_line_and_value(made):
    made.refuse(
        "session.timeout.ms",
        "Invalid value soon for configuration session.timeout.ms: Not a number of type INT",
    )
    made.refuse("offsets", 'Missing required configuration "offsets" which has no default value.')
    assert told(made) == [
        "w: offsets: is missing: add offsets=… to the file",
        "w:3: session.timeout.ms: Not a number of type INT; given: 'soon'",
        "w:7: topic: cannot be filled in: the environment has no variable 'GONE'",
        "3 problems in w",
    ]


def test_the_first_problem_of_a_key_counts(made):
    made.refuse("session.timeout.ms", "first")
    made.refuse("session.timeout.ms", "second")
    made.refuse("topic", "is missing")
    text = "\n".join(told(made))
    assert "first" in text
    assert "second" not in text
    assert "is missing" not in text


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("sasl.jaas.config", "'hunter2' is no JAAS"),
        ("group.id", "'g' is taken"),
        ("listeners", "'ftp://x' has the protocol 'ftp'"),
        ("session.timeout.ms", "differs from HUNTER2"),
    ],
)
def test_secrets_are_not_shown(made, key, text):
    made.refuse(key, text, allowed=text)
    made.warn(key, text)
    line = next(each for each in told(made) if f" {key}: " in each)
    assert text not in line
    assert "what it says is not allowed, and is not shown" in line
    assert "hunter2" not in line


def test_what_a_provider_filled_in_is_shown_as_it_stands(made):
    made.refuse("listeners", "needs one at least", allowed="http://:8083")
    assert "w:6: listeners: needs one at least; given: '${env:LISTENERS}'; allowed: " in "\n".join(
        told(made)
    )


def test_warnings_come_in_the_order_of_the_file():
    given = properties_file.parse("a=1\nb=2\n", file="w", folder=pathlib.Path("/"), environment={})
    made = account.Account(given)
    made.warn("b", "has no effect", nearest="bb")
    made.warn("a", "has no effect")
    made.warn("a", "has no effect")
    assert made.finish() == (
        "w:1: a: has no effect",
        "w:2: b: has no effect; did you mean 'bb'?",
    )
