"""Signatures of messages at work: Ed25519 by the keys of this process and of the roster, and proofs on disk."""
