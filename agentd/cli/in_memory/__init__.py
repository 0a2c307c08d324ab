"""The verbs that need no process but their own: simulated runs, one, a figure of them, or a grid."""
