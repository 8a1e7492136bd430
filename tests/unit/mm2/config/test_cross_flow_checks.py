from __future__ import annotations

import pytest

CLUSTERS = """clusters: {a: {bootstrap.servers: 'a:1'}, b: {bootstrap.servers: 'b:1'}, \
c: {bootstrap.servers: 'c:1'}, us.east: {bootstrap.servers: 'e:1'}}
"""
IDENTITY = "replication.policy.class: IdentityReplicationPolicy"


def flows(*items: str) -> str:
    """Flows such as `a b, topics: x`, one a line from line 3 on."""
    lines = []
    for item in items:
        ends, _, rest = item.partition(",")
        source, target = ends.split()
        lines.append(f"- {{from: {source}, to: {target}{', ' + rest if rest else ''}}}")
    return f"{CLUSTERS}flows:\n" + "\n".join(lines) + "\n"


def identity(ends: str, topics: str = ".*", exclude: str = "") -> str:
    return f"{ends}, {IDENTITY}, topics: '{topics}', topics.exclude: '{exclude}'"


def test_a_flow_names_known_clusters(wrong):
    (problem,) = wrong(flows("a us.eest"))
    assert (problem.line, problem.key, problem.given) == (3, "flows[0].to", "us.eest")
    assert problem.nearest == "us.east"
    assert problem.allowed == "a, b, c, us.east"


def test_a_value_from_a_provider_is_not_told(wrong):
    """A secret in the wrong place is still one."""
    end, twice = "${env:PW}", "'${env:PW}'"
    for text in (
        flows("a b").replace("to: b", f"to: {end}"),
        flows("a b").replace("from: a, to: b", f"from: {twice}, to: {twice}"),
        flows("a b", "a b").replace("to: b", f"to: {end}"),
    ):
        for problem in wrong(text, {"PW": "hunter2"}):
            assert "hunter2" not in problem.describe("c.yaml")
    (problem,) = wrong(flows(f"us.east b, replication.policy.separator: {twice}"), {"PW": "."})
    assert problem.given == "[hidden]"


def test_a_cluster_with_mistakes_is_known_all_the_same(wrong):
    found = wrong("clusters: {a: {}, b: {bootstrap.servers: 'b:1'}}\nflows: [{from: a, to: b}]\n")
    assert [problem.key for problem in found] == ["clusters.a"]


def test_a_flow_needs_two_clusters(wrong):
    (problem,) = wrong(flows("a a"))
    assert problem.text.startswith("is also the source")


def test_the_same_flow_twice(wrong):
    (problem,) = wrong(flows("a b, topics: x", "b a", "a b, topics: y"))
    assert (problem.line, problem.key) == (5, "flows[2]")
    assert "already defined on line 3" in problem.text


def test_a_separator_that_is_in_an_alias(wrong, read):
    (problem,) = wrong(flows("us.east b"))
    assert problem.key == "flows[0].replication.policy.separator"
    assert len(read(flows("us.east b, replication.policy.separator: _")).flows) == 1
    assert len(read(flows(f"us.east b, {IDENTITY}")).flows) == 1


def test_both_directions_that_rename_are_fine(read):
    assert len(read(flows("a b", "b a", "a c", "c b")).flows) == 4


@pytest.mark.parametrize(("there", "back"), [(".*", ".*"), ("orders", "orders"), ("a", "b")])
def test_names_kept_both_ways_are_fine_for_each_flow_knows_what_the_other_wrote(read, there, back):
    found = read(flows(identity("a b", there), identity("b a", back))).flows
    assert [each.target_topics.value for each in found] == ["shared", "shared"]


def test_settings_that_follow_both_ways_undo_each_other(read):
    found = read(flows(identity("a b"), identity("b a")))
    (warning,) = found.warnings
    assert (warning.line, warning.key) == (4, "flows[1].sync.topic.configs.enabled")
    assert "a->b and b->a" in warning.text
    one_way = identity("b a") + ", sync.topic.configs.enabled: false"
    assert read(flows(identity("a b"), one_way)).warnings == ()
    assert read(flows(identity("a b", "x"), identity("b a", "y"))).warnings == ()


@pytest.mark.parametrize(
    ("there", "on", "back"),
    [
        (".*", ".*", ".*"),
        ("orders", "orders", "orders"),
        ("orders", "o.*", ".*"),
        ("orders, users", "users", "users"),
        (r"orders\.v1", r"orders\.v.*", r"orders\.v1"),
    ],
)
def test_names_kept_all_round_run_in_a_circle(wrong, there, on, back):
    (problem,) = wrong(flows(identity("a b", there), identity("b c", on), identity("c a", back)))
    assert problem.line == 5
    assert "form a replication loop" in problem.text


@pytest.mark.parametrize(
    ("there", "back"),
    [
        ("orders", "users"),
        ("orders", "u.*"),
        ("orders.v1", "other"),
        (r"orders\.v1, a-b", r"orders\.v2"),
        ("", ".*"),
    ],
)
def test_names_kept_all_round_are_fine_when_listed_apart(read, there, back):
    text = flows(identity("a b", there), identity("b c"), identity("c a", back))
    assert len(read(text).flows) == 3


def test_exclusion_tells_listed_names_apart(read):
    text = flows(
        identity("a b", "orders, users", "users"), identity("b c"), identity("c a", "users")
    )
    assert len(read(text).flows) == 3


def test_a_circle_of_three_is_told_once(wrong):
    (problem,) = wrong(flows(identity("a b"), identity("b c"), identity("c a")))
    assert "a->b, b->c, c->a" in problem.text


def test_a_circle_needs_a_topic_that_goes_all_the_way(read):
    text = flows(identity("a b", "x"), identity("b c", "y"), identity("c a", "z"))
    assert len(read(text).flows) == 3


def mesh(count: int, topics: str) -> str:
    """Flows from each cluster to each other one, which keep names; {} in `topics` is a number."""
    names = [f"c{number}" for number in range(count)]
    there = "".join(f"  {name}: {{bootstrap.servers: 'x:1'}}\n" for name in names)
    ends = [(one, other) for one in names for other in names if one != other]
    listed = "".join(
        f"- {{from: {one}, to: {other}, {IDENTITY}, topics: '{topics.format(number)}'}}\n"
        for number, (one, other) in enumerate(ends)
    )
    return f"clusters:\n{there}flows:\n{listed}"


def test_a_large_mesh_is_judged_in_time(read, wrong):
    """Its circles cannot be counted: ten clusters have a million."""
    assert len(read(mesh(10, "t{}")).flows) == 90
    circles = [
        problem for problem in wrong(mesh(10, "t")) if "form a replication loop" in problem.text
    ]
    assert 1 < len(circles) <= 20


def test_two_sources_into_the_same_names(wrong, read):
    (problem,) = wrong(flows(identity("a c"), identity("b c")))
    assert (problem.line, problem.key) == (4, "flows[1].topics")
    assert len(read(flows(identity("a c", "x"), identity("b c", "y"))).flows) == 2


def renaming(ends: str, topics: str, separator: str = ".", exclude: str = "") -> str:
    policy = f"replication.policy.separator: '{separator}'"
    return f"{ends}, {policy}, topics: '{topics}', topics.exclude: '{exclude}'"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (renaming("a c", "orders"), identity("b c", r"a\.orders")),
        (identity("b c", r"users, a\.orders"), renaming("a c", "x.*, orders")),
    ],
)
def test_one_copy_of_two_flows_that_both_list_its_topic(wrong, one, other):
    (problem,) = wrong(flows(one, other))
    assert (problem.line, problem.key) == (4, "flows[1].topics")
    assert "would both write to a.orders of c" in problem.text


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (identity("b c", r"users, a\.orders"), renaming("a c", ".*")),
        (renaming("a c", "orders"), identity("b c", r"a\..*")),
    ],
)
def test_a_listed_topic_that_the_other_flow_may_have_too_is_a_warning(read, one, other):
    found = read(flows(one, other))
    assert len(found.flows) == 2
    (warning,) = found.warnings
    assert (warning.line, warning.key) == (4, "flows[1].topics")
    assert "would both write to a.orders of c" in warning.text


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (renaming("a c", "orders"), identity("b c", "orders")),
        (renaming("a c", "orders"), identity("b c", r"a\..*", r"a\.orders")),
        (renaming("a c", "orders", "_"), identity("b c", r"a\.orders")),
        (renaming("a c", "orders"), identity("b us.east", r"a\.orders")),
        (renaming("a c", ".*"), identity("b c", ".*")),
        (renaming("a c", "orders"), renaming("b c", "orders")),
    ],
)
def test_flows_that_name_their_copies_apart_are_fine(read, one, other):
    found = read(flows(one, other))
    assert (len(found.flows), found.warnings) == (2, ())


def test_a_direction_that_keeps_names_must_not_mirror_back_copies(wrong, read):
    (problem,) = wrong(flows(identity("a b"), "b a"))
    assert problem.key == "flows[0].topics"
    assert r"add b\..* to topics.exclude" in problem.text
    assert len(read(flows(identity("a b", ".*", r"b\..*"), "b a")).flows) == 2


def test_disabled_flows_and_flows_with_mistakes_are_no_part_of_circles(read, wrong):
    text = flows(identity("a b"), identity("b c"), identity("c a") + ", enabled: false")
    assert len(read(text).flows) == 2
    (problem,) = wrong(flows(identity("a b"), identity("b c"), identity("c a") + ", tasks.max: x"))
    assert problem.key == "flows[2].tasks.max"
