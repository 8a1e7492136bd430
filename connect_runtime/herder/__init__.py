"""The herder: decides which connectors and tasks this worker runs, and handles requests for them.

`DistributedHerder` is a state machine without threads: it receives events (`HerderEvent`) and
returns actions (`HerderAction`). `HerderLoop` runs the state machine on one thread and executes the
actions. `WorkerHerder` implements `Herder`, the interface that REST uses. A standalone worker runs
the same herder with a `StandaloneGroup`, a group that has one member.

The protocols `WorkerGroup`, `WorkerInterface` and `PeerClient` declare what the herder needs from
other layers.

May import base, system, api, storage and group. Must not import the worker, Kafka clients or REST.
"""
