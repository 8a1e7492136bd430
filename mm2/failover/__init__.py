"""Moves consumer groups from one cluster of a flow to the other: `mm2 failover`, `mm2 failback`.

1. A `MoveRequest` says what the operator asks for.
2. `MovePlanner` collects a `ClusterPairSnapshot` and makes the `MovePlan`: the action for each
   group, what is lost or re-read, and findings that forbid the move unless accepted.
3. `MoveExecutor` runs the steps of `move_steps` in order. Each step is done, read back and
   recorded in the journal before the next one begins, so a crashed move can be resumed.

Pure: `move_request`, `move_steps`, `move_plan`, `plan_findings`, `plan_rules`, `group_plan`,
`readiness`, `journal`, `step_details`, `interrupted_move`, `position_translation`,
`unreplicated_tails`. The other files connect to clusters, start threads or write files.

May import everything up to `mm2.clusters`, and `mm2.preflight`.
"""
