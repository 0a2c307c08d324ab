"""A testbed under churn and faults for minutes or hours: what befalls it, what is measured, and what may not be."""
