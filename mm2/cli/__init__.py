"""The command `mm2`: one module per command or command family.

`main` finds the subcommand, imports it when it is called, configures logging and turns errors into
exit codes. A subcommand is a click command that returns its exit code. `options` contains what
several commands share. `flow_reports` gets the status of flows from the process that runs them, or
from the clusters if no such process is running.

`main`, `terminal_output` and the exit codes must load quickly: `mm2 --version` and shell
completion load no Kafka client. Commands import Kafka's and Spark's libraries inside their
functions, after validating the input. This is the top package, so it may import all other packages.
"""
