"""Batches: the same results in order from every executor, and a cache that computes only what is new."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from tirx_eq.jobs import JobError, content_key, map_jobs

COUNTED: list[int] = []


def square(x: int) -> int:
    COUNTED.append(x)
    return x * x


def scaled(x: int, by: int) -> int:
    return x * by


@pytest.mark.parametrize("executor", ["serial", "processes:1", "processes:2"])
def test_every_executor_gives_the_results_in_order(executor):
    assert list(map_jobs(square, range(20), executor)) == [x * x for x in range(20)]
    assert list(map_jobs(square, [], executor)) == []


def test_a_cluster_gives_the_results_in_order():
    distributed = pytest.importorskip("distributed", reason="dask isn't installed")
    with distributed.LocalCluster(n_workers=1, processes=False, dashboard_address=None, protocol="tcp") as cluster:
        address = cluster.scheduler_address
        assert address.startswith("tcp:")
        assert list(map_jobs(square, range(5), "dask:" + address[4:])) == [x * x for x in range(5)]


def test_only_what_changed_is_computed_again(tmp_path: Path):
    pytest.importorskip("diskcache", reason="diskcache isn't installed")
    COUNTED.clear()
    assert list(map_jobs(square, [3, 1, 2], "serial", cached_in=tmp_path)) == [9, 1, 4]
    assert list(map_jobs(square, [5, 1, 2, 3], "serial", cached_in=tmp_path)) == [25, 1, 4, 9]
    assert COUNTED == [3, 1, 2, 5]


def test_a_result_is_known_by_all_that_it_depends_on():
    keys = [
        content_key(square, 3), content_key(square, 4), content_key(scaled, 3), content_key(partial(scaled, by=2), 3),
        content_key(partial(scaled, by=3), 3),
    ]  # fmt: skip
    assert len(set(keys)) == len(keys) and content_key(square, 3) == keys[0]


@pytest.mark.parametrize("executor", ["threads", "processes:0", "processes:two", "dask:somewhere", "dask://"])
def test_an_executor_that_is_not_known(executor):
    with pytest.raises(JobError, match="there is no executor"):
        list(map_jobs(square, [1], executor))


def test_a_scheduler_that_does_not_answer(monkeypatch):
    pytest.importorskip("distributed", reason="dask isn't installed")
    monkeypatch.setattr("tirx_eq.jobs.ANSWER", 1)
    with pytest.raises(JobError, match="no Dask scheduler answers at tcp://127"):
        list(map_jobs(square, [1], "dask://127.0.0.1:9"))
