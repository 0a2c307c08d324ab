"""How one agent takes part in a run, whatever carries its bytes and whoever runs its loop."""
