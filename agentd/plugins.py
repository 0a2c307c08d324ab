"""Policies, bodies and runtimes of somebody else, loaded at the start of every process that needs to know them.

AGENTD_PLUGINS=ENTRY[,ENTRY] names what to load, each in one of three ways:

    module                  importable here (PYTHONPATH says where else to look); importing it registers what it brings
    module:MyPolicy         the same, and a class that is registered as a policy
    /a/path/mine.py:MyPolicy  a class in a file

`agentd` loads them before it looks at a verb, and so does every agent that a testbed starts: processes of this machine
inherit the variable, and into containers files travel with the plan (a module has to be installed in the image).

Whoever types `--algorithm mine.py:MyPolicy`, or the name of a policy that an installed package offers as an entry point
of the group `agentd.policies`, need not set the variable: the command does, for itself and for what it starts. Entry
points are looked for only where a name is known to nobody: to look reads the metadata of every installed package.

Who sets the environment of a process decides what code it runs, by PYTHONPATH alone, with or without this; so it is
read from there, and from what a person types, but never from a file of settings, a run directory or the wire.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import os
import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import ModuleType

from agentd.errors import ConfigurationError

VARIABLE = "AGENTD_PLUGINS"
GROUP = "agentd.policies"
FLAGS = ("--algorithm", "--policy")
"""After which a policy is named: by itself, several with commas, or as 3=name."""
_IN_FILE = re.compile(r"(?P<path>.+\.py):(?P<name>[A-Za-z_][A-Za-z_0-9]*)")
_IN_MODULE = re.compile(r"(?P<module>[A-Za-z_][\w.]*):(?P<name>[A-Za-z_]\w*)")


def load() -> None:
    """Load what the environment names; once each, however often it is called."""
    for entry in entries():
        _load(entry)


def entries() -> list[str]:
    """What the environment names."""
    return [entry.strip() for entry in os.environ.get(VARIABLE, "").split(",") if entry.strip()]


def file_in(entry: str) -> Path | None:
    """The file that an entry names, if it names one."""
    found = _IN_FILE.fullmatch(entry)
    return Path(found["path"]) if found else None


def taken_from(words: Sequence[str]) -> list[str]:
    """The words of a command line, with policies in files and in packages loaded and called by their names."""
    made, is_named = [], False
    for word in words:
        flag, equals, value = word.partition("=")
        if is_named:
            made.append(_all_brought(word))
        elif equals and flag in FLAGS:
            made.append(f"{flag}={_all_brought(value)}")
        else:
            made.append(word)
        is_named = not is_named and word in FLAGS
    return made


def bring(name: str) -> str:
    """Load the policy that somebody named, for this process and those that it starts; returns its registered name."""
    from agentd.core.policy import ALGORITHMS

    load()
    if name in ALGORITHMS:
        return name
    if found := _IN_FILE.fullmatch(name):
        entry = f"{Path(found['path']).expanduser().resolve()}:{found['name']}"
    elif (offered := _offered(name)) is not None:
        entry = offered
    else:
        return name
    if "," in entry:
        raise ConfigurationError(
            f"cannot load {name}: its path holds a comma, which separates the entries of {VARIABLE}"
        )
    registered = _load(entry)
    also([entry])
    return registered or name


def also(more: Iterable[str]) -> None:
    """Name entries to all processes that this one starts from now on."""
    named = list(dict.fromkeys([*entries(), *more]))
    if named:
        os.environ[VARIABLE] = ",".join(named)


def _all_brought(value: str) -> str:
    agent, equals, name = value.rpartition("=")
    return f"{agent}{equals}" + ",".join(map(bring, name.split(",")))


def _offered(name: str) -> str | None:
    """The entry point of an installed package that offers a policy under this name."""
    if not re.fullmatch(r"[A-Za-z][\w.-]*", name):
        return None
    from importlib.metadata import entry_points

    return next((point.value for point in entry_points(group=GROUP, name=name)), None)


def _load(entry: str) -> str | None:
    """Load one entry; the name of the policy that it is about, if it is about one."""
    try:
        if found := _IN_FILE.fullmatch(entry):
            return _registered(_module_in(Path(found["path"])), found["name"])
        if found := _IN_MODULE.fullmatch(entry):
            return _registered(importlib.import_module(found["module"]), found["name"])
        importlib.import_module(entry)
    except Exception as fault:
        raise ConfigurationError(
            f"cannot load {entry}, which {VARIABLE} or a flag names: {type(fault).__name__}: {fault}"
        ) from fault
    return None


def _registered(module: ModuleType, name: str) -> str:
    from agentd.core.policy import Algorithm, register_policy

    policy = getattr(module, name)
    if not isinstance(policy, (type, Algorithm)):
        raise TypeError(f"{name} is neither the class of a policy nor an Algorithm")
    return register_policy(policy).name


def _module_in(path: Path) -> ModuleType:
    """The module of a file, executed once."""
    name = f"agentd_policy_{hashlib.sha256(str(path).encode()).hexdigest()[:12]}_{path.stem}"
    if name in sys.modules:
        return sys.modules[name]
    found = importlib.util.spec_from_file_location(name, path)
    if found is None or found.loader is None:
        raise ImportError(f"{path} is no module of Python")
    module = importlib.util.module_from_spec(found)
    sys.modules[name] = module
    try:
        found.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module
