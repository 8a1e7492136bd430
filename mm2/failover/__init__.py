"""Moves consumer groups between the two clusters of a flow: `mm2 failover`, `mm2 failback`.

1. A `FailoverRequest` states what the operator requests.
2. `FailoverPlanner` collects a `ClusterPairSnapshot` and builds the `FailoverPlan`: the action for
each
   group, the data loss and re-reads, and the findings that forbid the failover unless the operator
   accepts them.
3. `FailoverExecutor` runs the steps of `move_steps` in order. Each step is executed, verified and
   recorded in the journal before the next one begins, so an interrupted failover can be resumed.

Pure: `move_request`, `move_steps`, `move_plan`, `plan_findings`, `plan_rules`, `group_plan`,
`readiness`, `journal`, `journal_step_results`, `interrupted_move`, `position_translation`,
`unreplicated_tails`. The other modules connect to clusters, start threads or write files.

May import `mm2.preflight`, `mm2.clusters`, and every package below `mm2.clusters`.
"""
