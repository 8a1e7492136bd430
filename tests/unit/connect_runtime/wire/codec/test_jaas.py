from __future__ import annotations

import pytest

from connect_runtime.wire.codec import jaas

SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


@pytest.mark.parametrize(
    ("text", "options"),
    [
        (f'{SCRAM} required username="alice" password="secret";', ("alice", "secret")),
        (f'{SCRAM} REQUIRED username="alice" password="secret";', ("alice", "secret")),
        (f"{SCRAM} required username=alice password=secret ;", ("alice", "secret")),
        (
            f"{SCRAM}\n  required\n  username='al ice'\n  password='se;c=ret';\n",
            ("al ice", "se;c=ret"),
        ),
        (rf'{SCRAM} required username="a\"b" password="c\\d\n";', ('a"b', "c\\d\n")),
        (f'{SCRAM} requisite username = "a" password="";', ("a", "")),
    ],
)
def test_what_java_accepts(text, options):
    module = jaas.parse(text)
    assert module.simple_name == "ScramLoginModule"
    assert (module.options["username"], module.options["password"]) == options
    assert "password" not in repr(module)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "end with a semicolon"),
        (f'{SCRAM} required username="a" password="hunter2"', "end with a semicolon"),
        (f'{SCRAM} username="a" password="hunter2";', "start with a login module class and one of"),
        ('required password="hunter2";', "start with"),
        (f'{SCRAM} required password "hunter2";', "form key=value"),
        (f'{SCRAM} required password="hunter2" x;', "form key=value"),
        (f'{SCRAM} required password="hunter2;', "a quote is not closed"),
        (f'{SCRAM} required a="hunter2"; {SCRAM} required b=c;', "one login module"),
    ],
)
def test_problems_are_named_and_never_quoted(text, problem):
    with pytest.raises(jaas.JaasProblem, match=problem) as caught:
        jaas.parse(text)
    assert "hunter2" not in str(caught.value)
