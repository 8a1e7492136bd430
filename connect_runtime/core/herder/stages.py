"""What the herder is doing, for those who wait for it in vain: in the words of Java's stages."""

from __future__ import annotations

from connect_runtime.base import amounts
from connect_runtime.core.herder import instructions

JOINING = "ensuring membership in the cluster"
"""While no round stands."""
STARTING = "initializing and reading to the end of internal topics"
CLOSING = "shutting down"


def describe(question: instructions.Question) -> str:
    """A gerund with its object, fit to follow "The worker is currently"."""
    match question:
        case instructions.ReadConfigs():
            return "reading to the end of the config topic"
        case instructions.ClaimWrites():
            return "claiming write privileges for the config topic"
        case instructions.Write(write):
            return f"writing {_written(write)} to the config topic"
        case instructions.StopWork(what):
            return f"stopping {what.counted}"
        case instructions.StartWork(what):
            return f"starting {what.counted}"
        case instructions.RenewTasks(tasks):
            return f"telling {len(tasks)} task(s) what is configured for them now"
        case instructions.GenerateTaskConfigs(connector):
            return f"generating task configs for connector {connector}"
        case instructions.FlushStatuses():
            return "flushing updates to the status topic"


def _written(write: instructions.ConfigWrite) -> str:
    match write:
        case instructions.WriteConnector(connector=name):
            return f"a config for connector {name}"
        case instructions.RemoveConnector(name):
            return f"the removal of connector {name}"
        case instructions.WriteTaskConfigs(connector=name, configs=configs):
            return f"{amounts.counted(len(configs), 'task config')} for connector {name}"
        case instructions.WriteTargetState(connector=name, state=state):
            return f"the {state.value} target state for connector {name}"
        case instructions.WriteRestart(request):
            return f"restart request for connector {request.connector}"
        case instructions.WriteNewSessionKey():
            return "a new session key"
        case instructions.WriteFencingCount(connector=name):
            return f"a task count record for connector {name}"
