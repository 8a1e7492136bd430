"""`mm2 run`: the process that runs the flows of one configuration.

`Mm2Node` starts a Connect worker per flow (`FlowWorker`), the data plane and the REST servers;
`RunLoop` monitors and displays them and decides when the process ends; `ConfigReloader` applies a
changed file. `ConfigPublisher` writes the connectors' configurations as the group's leader,
`FailureTracker` restarts failed connectors and tasks.

Nodes that run the same file form one Connect group per flow. May import everything but sandbox and
cli.
"""
