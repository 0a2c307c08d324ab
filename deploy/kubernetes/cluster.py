"""What a cluster must be told of a testbed beyond its plan, and what its objects are called. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from agentd.addresses import admit_fault
from agentd.errors import SettingsError

CONFIG_DIR = "/etc/agentd/config"
WORKLOADS = ("statefulset", "job")
NO_STORAGE = "none"
AGENT_STORAGE = "64Mi"
PRIVATE_NETWORKS = ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7")
"""Where the pods of nearly every cluster have their addresses from; only its operator knows more."""
_LONGEST_NAME = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """What a cluster must be told beyond the plan."""

    name: str = "agentd"
    """What every object's name begins with."""
    namespace: str | None = None
    image: str
    storage: str = "1Gi"
    """Of the run directory; `none`: gone with the environment's pod."""
    agent_storage: str = AGENT_STORAGE
    """Of what each agent keeps: ledger and state; `none`: they survive a crash of the agent, but not of its pod."""
    workload: str = WORKLOADS[0]
    network_policy: bool = True
    admit: tuple[str, ...] = PRIVATE_NETWORKS
    """Where pods have their addresses from: nobody else is let in."""
    roster: str | None = None
    """Who is who, where pods have keys, each a secret of its own; None: there are no keys."""

    per_process: int = 1
    """Agents of a pod."""

    def __post_init__(self) -> None:
        if not _is_label(self.name):
            raise SettingsError(
                f"--name must be 1…{_LONGEST_NAME} small letters, digits and dashes, beginning with a letter, "
                f"got {self.name!r}"
            )
        if self.namespace is not None and not _is_label(self.namespace):
            raise SettingsError(f"--namespace {self.namespace!r} is not a name that Kubernetes takes")
        if fault := admit_fault(self.admit):
            raise SettingsError(fault)

    @property
    def agents(self) -> str:
        """The name of the agents' workload and the beginning of each pod's name."""
        return f"{self.name}-agent"

    @property
    def service(self) -> str:
        """The headless service under which agents are found."""
        return f"{self.name}-agents"

    @property
    def environment(self) -> str:
        """The name of the environment's workload and service."""
        return f"{self.name}-environment"

    @property
    def roster_config(self) -> str:
        """The ConfigMap with the roster, which is no secret."""
        return f"{self.name}-roster"

    def keys(self, agent: int | None) -> str:
        """The secret with the keys of one agent, or of the environment."""
        return f"{self.environment if agent is None else self.pod(agent)}-keys"

    @property
    def keeps(self) -> bool:
        """Whether every agent has a volume of its own."""
        return self.agent_storage != NO_STORAGE

    def state(self, agent: int) -> str:
        """The claim of an agent's volume, named as a StatefulSet would."""
        return f"state-{self.pod(agent)}"

    def pod(self, agent: int) -> str:
        """The name of an agent's pod, of its workload if it has one of its own, and of its file."""
        return f"{self.agents}-{agent}"

    def config(self, pod: str) -> list[str]:
        """What a pod is told to run: the one agent of its file, or all that are in it."""
        return (
            ["host", f"{CONFIG_DIR}/{pod}.json"] if self.per_process > 1 else ["--config", f"{CONFIG_DIR}/{pod}.toml"]
        )

    def host(self, agent: int) -> str:
        """Under which an agent is found in the service: a pod of a StatefulSet has its number behind its name."""
        alone = self.roster is not None and self.workload == WORKLOADS[0]
        return f"{self.pod(agent)}-0" if alone else self.pod(agent)


def _is_label(text: str) -> bool:
    fine = text.isascii() and text.replace("-", "").isalnum() and text == text.lower()
    return fine and len(text) <= _LONGEST_NAME and text[0].isalpha() and not text.endswith("-")
