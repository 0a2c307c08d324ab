"""What there is to see of a run as plain data, and as pages and files for people: no plotting library is needed."""

from agentd.charts.chart import Chart, Mark, Series
from agentd.charts.comparing import compared, differing_settings
from agentd.charts.of_run import charts_of
from agentd.charts.run_facts import RunFacts, read_facts

__all__ = ["Chart", "Mark", "RunFacts", "Series", "charts_of", "compared", "differing_settings", "read_facts"]
