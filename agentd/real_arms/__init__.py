"""Arms that are not simulated: a command, a function or an HTTP endpoint is asked, and says what a pull paid.

One small interface (`worker.Worker`): `pull(arm, trial, deadline_s) -> reward`, which blocks, or raises `ArmFault`.
Whoever pays rewards may be slow, broken or hostile: whatever it does costs a counted fault of bounded size, and the
pull then counts as one that paid the least (`pulling.Pulling`).
"""
