"""The herder: decides which connectors and tasks this worker runs, and serves requests for them.

`DistributedHerder` is a state machine without threads: it receives events (`HerderEvent`) and
returns actions (`HerderAction`). `HerderLoop` runs it on one thread and executes its actions;
`WorkerHerder` implements `Herder`, the interface that REST uses. A standalone worker runs the
same herder with a `StandaloneGroup`, a group that has one member.

What the herder needs from other layers is declared here as protocols: `WorkerGroup`,
`WorkerInterface`, `PeerClient`.

May import base, system, api, storage and group. Must not import the worker, Kafka clients or
REST.
"""
