"""The command `mm2`: one module per command or family of commands.

`main` finds the subcommand, imports it when it is called, configures the log and turns errors
into exit codes. A subcommand is a click command that returns its exit code. `options` has what
several commands share, `flow_reports` how commands get the state of flows: from the process
that runs them, else from the clusters.

`main`, `terminal` and the exit codes must stay light: `mm2 --version` and shell completion load
no Kafka client. Commands import Kafka's and Spark's libraries inside their functions, after the
input was checked. The top package: it may import all others.
"""
