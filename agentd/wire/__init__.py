"""The wire format: PROTOCOL.md is the contract, codec.py the only msgpack import."""
