"""The privacy audit of recorded transcripts."""
