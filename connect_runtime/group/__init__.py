"""The Connect worker group protocol as pure state machines: membership, rebalances and assignors.

`GroupMember` finds the coordinator, joins, syncs, sends heartbeats and leaves; it receives events
and returns instructions. The leader's part of a rebalance is `perform_assignment`, which uses the
eager or the incremental cooperative assignor (KIP-415). `ConnectorsAndTasks` is the unit of
assignment, and `connect_protocol` encodes what members exchange.

May import `connect_runtime.base` and `.protocol`. Uses no sockets, threads or clocks: the caller
passes the time.
"""
