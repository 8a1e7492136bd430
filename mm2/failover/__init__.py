"""Moves consumer groups between the two clusters of a flow: `mm2 failover`, `mm2 failback`.

1. A `FailoverRequest` states what the operator requests.
2. `FailoverPlanner` collects a `ClusterPairSnapshot` and builds the `FailoverPlan`: the action for
   each group, the data loss and re-reads, and the findings that forbid the failover unless the
   operator accepts them.
3. `FailoverExecutor` runs the steps of `failover_steps` in order. Each step is executed, verified
   and recorded in the journal before the next one begins, so an interrupted failover can be
   resumed.

Pure: `failover_request`, `failover_steps`, `failover_plan`, `plan_findings`, `plan_finding_rules`,
`consumer_group_plan`, `readiness`, `failover_journal`, `journal_step_results`,
`interrupted_failover`, `position_translation`, `unreplicated_offset_ranges`. The other modules
connect to clusters, start threads or write files.

May import `mm2.preflight`, `mm2.clusters`, and every package below `mm2.clusters`.
"""
