"""The command's end of a Dask cluster: tasks out, checked results in, in the order in which they are done.

A worker that dies costs the time of what it had in hand: the scheduler gives that to another. Of Dask's messages we
let results be nothing but plain bytes: with the serializer `msgpack` alone a pickled result is refused, not loaded.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from importlib import import_module
from itertools import islice
from typing import Any, TypeVar

from agentd.cluster.errand import DONE, REFUSED, Errand, perform, sameness
from agentd.cluster.scheduler_place import SchedulerPlace
from agentd.errors import AgentdError, ConfigurationError, SettingsError, ToolMissing, install_with
from agentd.untrusted import printable

Task = TypeVar("Task")
Done = TypeVar("Done")

CONNECT_S = 20.0
"""How long a scheduler has to answer, and then to have a worker."""
_FEWEST_AHEAD = 4
_LONGEST_WORDS = 300
"""Of what a worker says for people."""


def load_distributed() -> Any:
    """The library, or a refusal with the cure."""
    try:
        found = import_module("distributed")
    except ImportError:
        raise SettingsError(f"--cluster needs Dask, which is not installed: {install_with('cluster')}") from None
    logging.getLogger("distributed").setLevel(logging.CRITICAL + 1)  # it writes tracebacks where we have a sentence
    return found


def carry_out_on(place: SchedulerPlace, errand: Errand[Task, Done], tasks: Iterable[Task]) -> Generator[Done]:
    """Let the workers do every task, and yield what came of each as it is done; closing it forgets what is not."""
    distributed = load_distributed()
    with _connected(distributed, place) as client:
        slots = _require_safe(place, client)
        command, left = sameness(), iter(tasks)
        running: dict[Any, Task] = {}
        arriving = distributed.as_completed([], loop=client.loop)
        while True:
            for task in islice(left, max(_FEWEST_AHEAD, 2 * slots) - len(running)):
                future = client.submit(perform, errand, task, command, pure=False)
                running[future] = task
                arriving.add(future)
            if not running:
                return
            future = next(arriving)
            yield _taken(place, errand, running.pop(future), _answer(place, future))
            future.release()
            slots = sum(client.nthreads().values())


@contextmanager
def _connected(distributed: Any, place: SchedulerPlace) -> Generator[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of other versions, which we ask for ourselves, and of large tasks
        try:
            client = distributed.Client(
                place.address,
                timeout=CONNECT_S,
                set_as_default=False,
                security=_security(distributed, place),
                serializers=["msgpack"],
                deserializers=["msgpack"],
            )
        except (OSError, ValueError) as fault:  # a wrong certificate is a ValueError of ssl, or nobody answering
            raise ToolMissing(
                f"no Dask scheduler answers at {place.address}, or it does not know our certificate "
                f"({_words(str(fault))}); start one with `dask scheduler`"
            ) from None
        try:
            yield client
        finally:
            client.close()


def _security(distributed: Any, place: SchedulerPlace) -> Any:
    if not place.encrypted:
        return None
    try:
        return distributed.Security(
            tls_ca_file=place.authority,
            tls_client_cert=place.certificate,
            tls_client_key=place.key,
            require_encryption=True,
        )
    except (OSError, ValueError) as fault:
        raise ConfigurationError(f"the certificates for {place.address} cannot be used: {fault}") from None


def _require_safe(place: SchedulerPlace, client: Any) -> int:
    """Wait for a worker; how many tasks the workers do at once. Refuse a cluster that others reach, too."""
    try:
        client.wait_for_workers(1, timeout=CONNECT_S)
    except Exception:  # distributed has its own TimeoutError in some versions
        raise ToolMissing(
            f"the scheduler at {place.address} has no worker: start some with `dask worker {place.address}`"
        ) from None
    told = client.scheduler_info()
    if (stranger := place.stranger_among([told["address"], *told["workers"]])) is not None:
        cure = "start all of it with certificates" if place.encrypted else "start all of it with --host 127.0.0.1"
        raise ConfigurationError(
            f"a part of the cluster at {place.address} listens at {printable(stranger)}, where others may reach it "
            f"and have it run what they like: {cure}"
        )
    return sum(client.nthreads().values())


def _answer(place: SchedulerPlace, future: Any) -> bytes:
    """What a worker sent; Dask's own failures in a sentence."""
    try:
        answer = future.result()
    except TypeError:
        answer = None  # a result of another kind than bytes was not loaded
    except Exception as fault:  # of whatever class the cluster's version has
        kind, words = type(fault).__name__, _words(str(fault))
        if kind == "KilledWorker":
            raise AgentdError(
                "a task was in hand of several workers that died, perhaps for lack of memory; the same command goes on"
            ) from None
        if future.status in ("cancelled", "lost"):
            raise ToolMissing(
                f"the scheduler at {place.address} is gone; what is done is kept, and the same command goes on"
            ) from None
        raise ConfigurationError(
            f"the workers of {place.address} cannot do it ({kind}: {words}): they need the same agentd as this command"
        ) from None
    if not isinstance(answer, bytes) or not answer:
        raise _nonsense(place, "no bytes")
    return answer


def _taken(place: SchedulerPlace, errand: Errand[Task, Done], task: Task, answer: bytes) -> Done:
    kind, content = answer[:1], answer[1:]
    if kind == DONE:
        try:
            return errand.unpack(task, content)
        except ValueError as fault:
            raise _nonsense(place, str(fault)) from None
    said = _words(content[: 4 * _LONGEST_WORDS].decode(errors="replace"))
    if kind == REFUSED:
        raise ConfigurationError(f"a worker of {place.address} would not give the same numbers: {said}")
    raise AgentdError(f"a worker of {place.address} failed: {said}")


def _nonsense(place: SchedulerPlace, what: str) -> AgentdError:
    return AgentdError(
        f"a worker of {place.address} sent what no measurement is ({what}); it was not kept. Look who can reach the "
        "cluster; the same command goes on"
    )


def _words(text: str) -> str:
    return printable(" ".join(text.split()))[:_LONGEST_WORDS]
