"""Ed25519 by libsodium (PyNaCl): the only place that loads it, and only where keys are used."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

from agentd.errors import ConfigurationError, install_with

PUBLIC_BYTES = 32
SECRET_BYTES = 32
SIGNATURE_BYTES = 64


def new_pair() -> tuple[bytes, bytes]:
    """A public key and its secret, from the operating system's chance."""
    key = _nacl().SigningKey.generate()
    return bytes(key.verify_key), bytes(key)


def public_of(secret: bytes) -> bytes:
    """The public key of a secret."""
    return bytes(_nacl().SigningKey(secret).verify_key)


def sign(secret: bytes, data: bytes) -> bytes:
    """The signature of these bytes."""
    return bytes(_nacl().SigningKey(secret).sign(data).signature)


def signer(secret: bytes) -> Callable[[bytes], bytes]:
    """What signs with this secret again and again: in half the time."""
    key = _nacl().SigningKey(secret)
    return lambda data: bytes(key.sign(data).signature)


def is_signed(public: bytes, data: bytes, signature: bytes) -> bool:
    """Whether this key has signed these bytes."""
    _nacl()
    from nacl.bindings import crypto_sign_open
    from nacl.exceptions import CryptoError

    if len(public) != PUBLIC_BYTES or len(signature) != SIGNATURE_BYTES:
        return False
    try:
        crypto_sign_open(signature + data, public)
    except CryptoError:
        return False
    return True


def fingerprint(public: bytes) -> str:
    """By which an operator's key is pinned: 64 hexadecimal digits."""
    return hashlib.sha256(public).hexdigest()


def _nacl() -> Any:
    try:
        import nacl.signing
    except ImportError:
        raise ConfigurationError(f"keys need PyNaCl, which is not installed here: {install_with('keys')}") from None
    return nacl.signing
