"""Every error a person or a peer can cause, by who is at fault.

::

    AgentdError                 exit 1   something failed while running
    ├── SettingsError           exit 2   the operator's flags make no sense
    │   └── ConfigurationError  exit 78  a file or a place the operator named is unusable
    │       ├── StateUnusable   exit 78  the state on disk is somebody else's, in use or damaged
    │       └── NewerSelf       exit 78  a message of one's own came back that is newer than the state
    ├── EnvironmentUnreachable  exit 69  nobody answers where the environment should be
    ├── ToolMissing             exit 69  a program or service of this machine that the command needs is not there
    ├── BudgetExhausted         exit 75  the privacy budget is spent and the operator said to stop then
    ├── LedgerInDoubt           exit 1   what was spent cannot be written down, so nothing more is sent
    ├── LinkError               exit 1   the transport failed for good, after retries
    └── PeerError               -        a peer sent what no honest peer sends: drop it, count it, go on

A bug is none of these: it is an ordinary exception and stops the daemon.
"""

from __future__ import annotations

DISTRIBUTION = "agentd-bandits"
"""What it is installed as; the import name and the command are agentd."""


def install_with(extra: str) -> str:
    """What to type where an optional part is missing."""
    return f"pip install '{DISTRIBUTION}[{extra}]'"


class AgentdError(Exception):
    """Something failed while running; the message says what happened, why, and what to do."""

    exit_code = 1


class SettingsError(AgentdError):
    """The operator's settings make no sense."""

    exit_code = 2


class ConfigurationError(SettingsError):
    """A file or a place that the operator named cannot be used."""

    exit_code = 78


class StateUnusable(ConfigurationError):
    """The state on disk is somebody else's, in use, damaged or out of reach."""


class NewerSelf(ConfigurationError):
    """This agent has signed something that its state knows nothing of: it is an old copy, or runs twice."""


class EnvironmentUnreachable(AgentdError):
    """Nobody answers where the environment service should be."""

    exit_code = 69


class ToolMissing(AgentdError):
    """A program or service that the command needs, such as Docker, is not on this machine or does not answer."""

    exit_code = 69


class BudgetExhausted(AgentdError):
    """The privacy budget is spent and the operator asked to stop then."""

    exit_code = 75


class LedgerInDoubt(AgentdError):
    """What was spent cannot be written down, so nothing more may be sent."""


class LinkError(AgentdError):
    """The transport failed for good, after retries."""


class PeerError(AgentdError):
    """A peer sent what no honest peer sends; `reason` is the name of the counter it goes to."""

    def __init__(self, reason: str, message: str = "") -> None:
        super().__init__(message or reason)
        self.reason = reason
