"""Release schedules, exact discrete Laplace noise and the ledger of what was spent."""
