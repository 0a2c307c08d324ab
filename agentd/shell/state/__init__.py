"""The state of an agent on disk: written before anything is sent, found again after a crash."""
