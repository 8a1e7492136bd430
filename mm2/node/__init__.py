"""`mm2 run`: the process that runs the flows of one configuration.

`Node` starts a Connect worker per flow (`FlowWorker`), the data plane and the REST servers;
`RunLoop` watches them, displays them and decides when the process ends; `ConfigReloader` applies
a changed file. `ConfigPublisher` writes the connectors' configurations as the group's leader,
`FailureTracker` restarts what failed.

Nodes that run the same file form one Connect group per flow. May import everything but sandbox
and cli.
"""
