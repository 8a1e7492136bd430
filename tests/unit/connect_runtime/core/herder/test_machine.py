from __future__ import annotations

import pytest

from connect_runtime.core.assignment import protocol
from connect_runtime.core.herder import events, instructions, machine, memory, requests
from connect_runtime.core.state import cluster_config, status_log
from tests.fakes import herder_cluster

PROTOCOLS = list(protocol.Protocol)


def cluster(speaks=protocol.Protocol.SESSIONED, **more):
    return herder_cluster.Cluster(speaks=speaks, **more)


@pytest.mark.parametrize("speaks", PROTOCOLS)
def test_one_worker_runs_what_is_created(speaks):
    world = cluster(speaks)
    worker = world.join("a")
    reply = world.create(worker, "c", tasks=3)
    assert reply == requests.Put(connector="c", config={"name": "c"}, tasks=(), created=True)
    assert world.owners() == dict.fromkeys(["c", "c-0", "c-1", "c-2"], "a")
    assert world.doubles == []


@pytest.mark.parametrize("speaks", PROTOCOLS)
def test_work_is_shared_taken_over_and_given_back(speaks):
    world = cluster(speaks)
    first = world.join("a")
    world.create(first, "c", tasks=4)
    second = world.join("b")
    owners = world.owners()
    assert sorted(owners) == ["c", "c-0", "c-1", "c-2", "c-3"]
    assert set(owners.values()) == {"a", "b"}
    world.kill(first)
    assert world.owners() == dict.fromkeys(["c", "c-0", "c-1", "c-2", "c-3"], "b")
    world.join("a2")
    assert set(world.owners().values()) == {"a2", "b"}
    assert second.herder.question is None
    assert world.doubles == []


def test_a_follower_sends_task_configs_to_the_leader():
    world = cluster()
    leading = world.join("a")
    follower = world.join("b")
    world.create(leading, "x", tasks=1)
    world.create(leading, "y", tasks=1)
    assert any(isinstance(each, str) for each in follower.runs), world.owners()
    assert len(follower.of(instructions.ForwardTaskConfigs)) == 1
    assert follower.of(instructions.ForwardTaskConfigs)[0].leader_url == leading.url
    assert sorted(world.owners()) == ["x", "x-0", "y", "y-0"]


def test_a_worker_that_ends_stops_its_work_answers_everybody_and_leaves_last():
    world = cluster()
    worker = world.join("a")
    world.create(worker, "c", tasks=2)
    later = world.ask(worker, requests.RestartConnector("c"), delay_s=60)
    world.tell(worker, events.ShutdownRequested())
    assert worker.runs == {}
    assert worker.replies[later] == requests.Refused(500, "Worker is shutting down")
    assert worker.said[-1] == instructions.Close()
    assert worker.herder.closed
    assert worker.herder.wake_at_s() is None
    seen = events.Seen(
        now_s=0, wall_ms=0, config=cluster_config.EMPTY, statuses=status_log.Statuses()
    )
    assert worker.herder.step(events.TimePassed(), seen) == []


def test_what_is_asked_while_it_ends_is_refused():
    herder = machine.Herder(memory.HerderSettings(), SEEN)
    assert herder.step(events.Begun(), SEEN) == []
    [flush] = herder.step(events.ShutdownRequested(), SEEN)
    assert flush == instructions.FlushStatuses()
    asked = events.Submitted(ticket=4, request=requests.CheckHealth())
    [answer] = herder.step(asked, SEEN)
    assert answer == instructions.Answer(4, requests.Refused(500, "Worker is shutting down"))
    assert herder.step(events.Answered(events.Done()), SEEN) == [instructions.Close()]


SEEN = events.Seen(
    now_s=10, wall_ms=10_000, config=cluster_config.EMPTY, statuses=status_log.Statuses()
)


def test_before_it_has_begun_nothing_is_decided():
    herder = machine.Herder(memory.HerderSettings(), SEEN)
    asked = events.Submitted(ticket=1, request=requests.CheckHealth())
    assert herder.step(asked, SEEN) == []
    assert herder.wake_at_s() is None
    assert herder.step(events.ShutdownRequested(), SEEN)[-1] == instructions.FlushStatuses()


def test_requests_wait_for_a_round():
    world = cluster()
    worker = world.join("a")
    herder = worker.herder
    [prepared] = herder.step(events.JoinAsked(worker.member.stop_before_joining()), SEEN)
    assert prepared == instructions.Prepared()
    assert herder.step(events.Submitted(ticket=99, request=requests.CheckHealth()), SEEN) == []
    assert herder.wake_at_s() is None


def test_what_happens_while_a_question_is_open_is_only_noted():
    world = cluster()
    worker = world.join("a")
    herder, seen = worker.herder, world.seen(worker)
    put = requests.PutConnector(connector="c", config={})
    [question] = herder.step(events.Submitted(ticket=50, request=put), seen)
    assert isinstance(question, instructions.Write)
    assert herder.question is question
    asked = events.Submitted(ticket=51, request=requests.CheckHealth())
    assert herder.step(asked, seen) == []
    assert herder.wake_at_s() is None
    answers = herder.step(events.Answered(events.Done()), seen)
    assert [each.ticket for each in answers] == [50, 51]


def test_an_answer_to_nothing_is_a_mistake_of_the_driver():
    herder = machine.Herder(memory.HerderSettings(), SEEN)
    with pytest.raises(AssertionError):
        herder.step(events.Answered(events.Done()), SEEN)


def test_the_loss_of_the_coordinator_stops_everything_until_the_next_round():
    """KAFKA-9184."""
    world = cluster()
    worker = world.join("a")
    world.create(worker, "c", tasks=2)
    worker.member, _ = worker.member.given_up()
    world.tell(worker, events.GroupLost("no coordinator for 3 s"))
    assert worker.runs == {}
    ticket = world.ask(worker, requests.CheckHealth())
    assert ticket not in worker.replies
    world.round_wanted = True
    world.run()
    assert world.owners() == dict.fromkeys(["c", "c-0", "c-1"], "a")
    assert worker.replies[ticket] == requests.Accepted()


def test_too_many_requests_are_refused(monkeypatch):
    monkeypatch.setattr(requests, "QUEUE_MAX", 2)
    herder = machine.Herder(memory.HerderSettings(), SEEN)
    said = [
        herder.step(events.Submitted(ticket=each, request=requests.CheckHealth()), SEEN)
        for each in range(3)
    ]
    assert said[:2] == [[], []]
    [refused] = said[2]
    assert (refused.ticket, refused.reply.status) == (2, 503)
