"""Batches of independent jobs: one function over a list, in processes of this machine or on a Dask cluster.

A job is picklable and deterministic, and results come in the order of the jobs whatever ran them, so a batch gives the
same answer everywhere.  With a cache, results are found again by their content: the function, the job, the rules and the
program; a rerun computes only what changed.
"""

from __future__ import annotations

import hashlib
import multiprocessing
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeVar

from .errors import TirxError
from .resources import rules_dir

Job = TypeVar("Job")
Result = TypeVar("Result")

#: jobs handed to a process at once: enough that starting them doesn't count
CHUNK = 8
#: seconds in which a scheduler must answer
ANSWER = 10


class JobError(TirxError):
    """An executor that isn't known, can't be reached, or whose library isn't installed."""


def map_jobs(
    function: Callable[[Job], Result], jobs: Iterable[Job], executor: str = "processes", *, cached_in: str | Path | None = None
) -> Iterator[Result]:
    """``function`` of each job, in order.

    ``executor`` is ``serial``, ``processes`` or ``processes:N`` (N >= 1, else all cores), or ``dask://HOST:PORT``.
    ``function`` must be importable by name for all but ``serial``.  ``cached_in`` is a folder for results, to be shared
    between runs; a job is known there by its ``repr``.  JobError as above; what ``function`` raises comes through.
    """
    run = _runner(executor)
    todo = list(jobs)
    if cached_in is None:
        yield from run(function, todo)
        return
    with _open_cache(cached_in) as store:
        keys = [content_key(function, job) for job in todo]
        missing = [i for i, key in enumerate(keys) if key not in store]
        fresh = zip(missing, run(function, [todo[i] for i in missing]))
        awaited = set(missing)
        for i, key in enumerate(keys):
            if i in awaited:
                _, result = next(fresh)
                store[key] = result
            else:
                result = store[key]
            yield result


def content_key(function: Callable[..., Any], job: object) -> str:
    """What a result depends on, as a digest: function, job, rules, and this version of the package."""
    from . import __version__

    named, given = function, ""
    if isinstance(function, partial):
        named, given = function.func, repr((function.args, sorted(function.keywords.items())))
    parts = (named.__module__, named.__qualname__, given, repr(job), _program_digest(), __version__)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


@cache
def _program_digest() -> str:
    """Of the rules and of the package's own text: a proof found by another prover is not this one's."""
    digest = hashlib.sha256()
    package = Path(__file__).parent
    for path in [*sorted(package.rglob("*.py")), *sorted(rules_dir().glob("*.egg"))]:
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


Runner = Callable[[Callable[[Any], Any], Sequence[Any]], Iterator[Any]]


def _runner(executor: str) -> Runner:
    kind, _, rest = executor.partition(":")
    if executor == "serial":
        return lambda function, jobs: map(function, jobs)
    if kind == "processes" and (not rest or (rest.isdecimal() and int(rest) > 0)):
        return lambda function, jobs: _in_processes(function, jobs, int(rest) if rest else None)
    if kind == "dask" and rest.startswith("//") and len(rest) > 2:
        return lambda function, jobs: _on_dask(function, jobs, "tcp:" + rest)
    raise JobError(f"there is no executor '{executor}'", hint="serial, processes, processes:N or dask://HOST:PORT")


def _in_processes(function: Callable[[Any], Any], jobs: Sequence[Any], count: int | None) -> Iterator[Any]:
    if count == 1 or len(jobs) <= CHUNK:
        yield from map(function, jobs)  # starting a process takes longer
        return
    # spawned, not forked: egglog and z3 have threads of their own
    with ProcessPoolExecutor(count, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield from pool.map(function, jobs, chunksize=CHUNK)


def _on_dask(function: Callable[[Any], Any], jobs: Sequence[Any], address: str) -> Iterator[Any]:
    try:
        from distributed import Client
    except ImportError:
        raise JobError("dask isn't installed", hint="pip install 'tirx-eq[cluster]'") from None
    try:
        client = Client(address, timeout=ANSWER)
    except OSError as error:
        raise JobError(f"no Dask scheduler answers at {address}: {error}") from None
    with client:
        futures = client.map(function, jobs, pure=False)
        for future in futures:
            yield future.result()


def _open_cache(folder: str | Path) -> Any:
    try:
        from diskcache import Cache
    except ImportError:
        raise JobError("diskcache isn't installed", hint="pip install 'tirx-eq[cluster]'") from None
    return Cache(str(folder))
