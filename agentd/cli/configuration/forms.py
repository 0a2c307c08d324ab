"""How the text of a flag, of a variable or of a line in a file becomes a value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

from agentd.quantities import seconds_in


class Duration(click.ParamType):  # type: ignore[type-arg]
    """`10s`, `500ms`, `2m`; a bare number is seconds. What is beyond a range is told with the faults of settings."""

    name = "TIME"

    def __init__(self, longest_s: float | None = None) -> None:
        self._longest_s = longest_s

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        seconds = seconds_in(str(value))
        if seconds is None or (self._longest_s is not None and not 0.0 < seconds <= self._longest_s):
            self.fail(f"{value!r} is not a time like 10s, 500ms or 2m", param, ctx)
        return seconds


LASTING = Duration(longest_s=7 * 24 * 3600.0)
"""For how long something is done on purpose: not for nothing, and not for ever."""


class Numbers(click.ParamType):  # type: ignore[type-arg]
    """Numbers separated by commas."""

    name = "NUMBERS"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[float, ...]:
        if isinstance(value, tuple):
            return value
        try:
            return tuple(float(number) for number in str(value).split(","))
        except ValueError:
            self.fail(f"{value!r} is not a list of numbers like 0.9,0.8,0.5", param, ctx)


class Range(Numbers):
    """Two numbers separated by a comma."""

    name = "LOW,HIGH"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[float, ...]:
        numbers = super().convert(value, param, ctx)
        if len(numbers) != 2:
            self.fail(f"{value!r} is not a range like 0.3,0.7", param, ctx)
        return numbers


class Assignments(click.ParamType):  # type: ignore[type-arg]
    """`3=ucb1`: what one agent gets."""

    name = "AGENT=NAME"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, str]:
        if isinstance(value, tuple):
            return value
        agent, found, name = str(value).partition("=")
        if not found or not agent.isascii() or not agent.isdigit() or len(agent) > 9:
            self.fail(f"{value!r} is not of the form 3=ucb1", param, ctx)
        return int(agent), name


class Peers(click.ParamType):  # type: ignore[type-arg]
    """`1=tcp://gate-1:7001,2=tcp://gate-2:7002`."""

    name = "ID=ADDRESS,…"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> dict[int, str]:
        if isinstance(value, dict):
            return {int(peer): str(address) for peer, address in value.items()}
        peers: dict[int, str] = {}
        for item in filter(None, str(value).split(",")):
            peer, found, address = item.partition("=")
            if not found or not peer.isascii() or not peer.isdigit():
                self.fail(f"{item!r} is not of the form 1=tcp://gate-1:7001", param, ctx)
            if int(peer) in peers:
                self.fail(f"agent {peer} is named twice", param, ctx)
            peers[int(peer)] = address
        return peers


class Networks(click.ParamType):  # type: ignore[type-arg]
    """`10.0.0.0/8,fd00::/8`; what is none is told with the other faults of the settings."""

    name = "CIDR,…"

    def convert(self, value: Any, _param: click.Parameter | None, _ctx: click.Context | None) -> tuple[str, ...]:
        return value if isinstance(value, tuple) else tuple(filter(None, str(value).split(",")))


class Values(click.ParamType):  # type: ignore[type-arg]
    """One value or several, separated by commas."""

    def __init__(self, inner: click.ParamType) -> None:  # type: ignore[type-arg]
        self.inner = inner
        self.name = f"{inner.name},…" if not isinstance(inner, click.Choice) else "NAME,…"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[Any, ...]:
        if isinstance(value, tuple):
            return value
        return tuple(self.inner.convert(each.strip(), param, ctx) for each in str(value).split(","))


def joined(_ctx: click.Context, _param: click.Parameter, values: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """What a flag was given in all, where it may be repeated."""
    return tuple(each for value in values for each in value)


def as_typed(param: click.Parameter, value: Any) -> str | list[str]:
    """A value of a file as it would be typed, so that it is held to what a flag is: no 3.7 agents, cut to 3."""
    if isinstance(value, Mapping):
        if not isinstance(param.type, Peers | Assignments):
            raise ValueError("takes a value, not a table")
        value = [f"{key}={_plain(each)}" for key, each in value.items()]
    if isinstance(value, list):
        texts = [_plain(each) for each in value]
        if isinstance(param, click.Option) and param.multiple:
            return texts
        if not isinstance(param.type, Numbers | Peers | Values):
            raise ValueError("takes one value, not a list")
        return ",".join(texts)
    return [_plain(value)] if isinstance(param, click.Option) and param.multiple else _plain(value)


def _plain(value: Any) -> str:
    if isinstance(value, Mapping | list):
        raise ValueError("takes no table and no list within another")
    return str(value)
