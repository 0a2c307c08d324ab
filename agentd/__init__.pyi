from agentd.api.embedded import Agent as Agent
from agentd.api.policies import NOTHING as NOTHING
from agentd.api.policies import UNIT as UNIT
from agentd.api.policies import Body as Body
from agentd.api.policies import Cumulative as Cumulative
from agentd.api.policies import Field as Field
from agentd.api.policies import Intent as Intent
from agentd.api.policies import Ledger as Ledger
from agentd.api.policies import Noiseless as Noiseless
from agentd.api.policies import Policy as Policy
from agentd.api.policies import PolicySettings as PolicySettings
from agentd.api.policies import Release as Release
from agentd.api.policies import Released as Released
from agentd.api.policies import Silent as Silent
from agentd.api.policies import computed as computed
from agentd.api.policies import register_body as register_body
from agentd.api.policies import register_policy as register_policy
from agentd.api.policies import release_of as release_of
from agentd.api.results import Run as Run
from agentd.api.results import load_run as load_run
from agentd.api.tables import Table as Table
from agentd.api.tables import sweep as sweep
from agentd.api.testbeds import run as run
from agentd.api.testbeds import simulate as simulate
from agentd.errors import AgentdError as AgentdError
from agentd.errors import SettingsError as SettingsError

__version__: str
