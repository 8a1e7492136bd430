"""`mm2 run`: the process that runs the flows of a configuration.

`Mm2Node` starts a Connect worker per flow (`FlowWorker`), the data plane and the REST servers.
`RunLoop` monitors and displays the flows and decides when the process exits. `ConfigReloader`
applies a changed configuration file. `ConfigPublisher` writes the connectors' configurations if
this node is the group's leader. `FailureTracker` restarts failed connectors and tasks.

Nodes that run the same file form one Connect group per flow. May import everything except
`mm2.sandbox` and `mm2.cli`.
"""
