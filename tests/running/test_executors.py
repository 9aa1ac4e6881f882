"""Work in this process, in processes, on a Dask cluster and on executors: the same results, workers killed or not."""

import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import qmlir
from qmlir.errors import FileError, OptionError, ProfileError, QmlirError, QmlirWarning, UnsupportedError
from qmlir.running import executors
from qmlir.running.executors import DaskWorkers, ExecutorWorkers, ProcessWorkers, Workers, share_of_memory, workers_of
from tests.cli.small import Small, run, write_small


def add(shared: int, task: int) -> int:
    return shared + task


def slowly(shared: float, task: int) -> int:
    time.sleep(shared)
    return task


def fail_at(shared: int, task: int) -> int:
    if task >= shared:
        raise FileError("net.onnx", f"must not fail at {task}", got="a failure", remedy="try less")
    return task


def end_once(folder: str, task: int) -> int:
    """Kills the process of the task, unless it has done so before."""
    marker = Path(folder) / str(task)
    if task % 4 == 1 and not marker.exists():
        marker.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return task * task


def end_always(shared: int, task: int) -> int:
    if task == shared:
        os.kill(os.getpid(), signal.SIGKILL)
    return task


def allocate(shared: int, task: int) -> int:
    return int(np.ones(task, np.uint8)[-1]) + shared


def warn(shared: str, task: int) -> int:
    warnings.warn(f"{shared} {task % 2}", QmlirWarning, stacklevel=1)
    return os.getpid()


@pytest.fixture(scope="module")
def processes() -> Iterator[ProcessWorkers]:
    with ProcessWorkers(2) as workers:
        yield workers


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A scheduler and two workers, each a process with one thread and 1 GiB."""
    distributed = pytest.importorskip("distributed", reason="the extra `cluster` is not installed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        settings = {"dashboard_address": None, "memory_limit": "1GiB", "silence_logs": 50}
        with distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, **settings) as found:
            yield found


@pytest.fixture
def on_dask(cluster: Any) -> Iterator[DaskWorkers]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with DaskWorkers(cluster.scheduler_address) as workers:
            yield workers


# ---------------------------------------------------------------------------------------------------------------
# What is asked for


def test_workers_are_what_is_asked_for() -> None:
    assert type(workers_of(None)) is type(workers_of(1)) is Workers
    assert not workers_of(1).elsewhere
    with workers_of(3) as three, ThreadPoolExecutor(5) as pool:
        assert isinstance(three, ProcessWorkers)
        assert three.count == 3
        assert workers_of(three) is three
        assert (given := workers_of(pool)).count == 5
        assert isinstance(given, ExecutorWorkers)
        assert given.said == "5 workers of a ThreadPoolExecutor"


@pytest.mark.parametrize("given", [0, -1, True, 2.5, [2]])
def test_workers_that_cannot_be(given: Any) -> None:
    with pytest.raises(OptionError, match="must be a number of processes, the address of a Dask scheduler"):
        workers_of(given)


def test_memory_is_a_limit_of_processes() -> None:
    for given in (None, "tcp://localhost:1"):
        with pytest.raises(OptionError, match="is a limit of processes"):
            workers_of(given, 1 << 30)
    with workers_of(2, 1 << 30) as workers:
        assert workers.memory == 1 << 30
        assert workers.said == "2 processes, each with at most 1.07 GB of memory"
    half, third = share_of_memory(2), share_of_memory(3)
    if half is not None and third is not None:
        assert abs(half * 2 - third * 3) < 6


def test_one_job_is_this_process(small: Small, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.warns(QmlirWarning, match="is a limit of several processes; this one has none"):
        assert not workers_of(1, 1 << 30).elsewhere
    with pytest.raises(OptionError, match="ask for processes by --jobs"):
        workers_of(None, 1 << 30)
    profile = ("profile", small.onnx, "--data", small.data, "-o", small / "p.yaml", "--jobs", "1")
    assert run(*profile, "--worker-memory", "1GiB") == 0
    assert "this one has none" in capsys.readouterr().err
    assert run("quantize", small.onnx, "--profile", small / "p.yaml", "-o", small / "q.mlir", "-q") == 0
    assert run("analyze", small.onnx, small / "q.mlir", "--data", small.data, "--jobs", "1", "-q") == 0


@pytest.mark.slow
def test_a_cluster_needs_its_package_and_a_scheduler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executors, "CONNECTING", 0.2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for address in ("tcp://127.0.0.1:9", "nowhere"):
            with pytest.raises(OptionError, match=r"must be the address of a Dask scheduler, got .*dask scheduler"):
                workers_of(address)
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(OptionError, match=r"needs the package distributed, got none; pip install 'qmlir\[cluster\]'"):
        workers_of("tcp://127.0.0.1:9")


# ---------------------------------------------------------------------------------------------------------------
# Errors cross processes whole


@pytest.mark.parametrize(
    "error",
    [
        QmlirError("must be", where="x", got="y", remedy="z"),
        FileError("a.onnx", "must be", got="y"),
        UnsupportedError("must be", "y", "z", where="x", code="target"),
    ],
)
def test_errors_pickle_with_their_parts(error: QmlirError) -> None:
    import pickle

    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), again.__dict__) == (type(error), str(error), error.__dict__)


def test_the_error_is_that_of_the_first_task_that_fails(processes: ProcessWorkers) -> None:
    for workers in (Workers(), processes):
        with pytest.raises(FileError, match="must not fail at 5, got a failure; try less"):
            workers.map(fail_at, 5, range(40))


# ---------------------------------------------------------------------------------------------------------------
# Processes


def test_results_are_in_order_and_counted(processes: ProcessWorkers) -> None:
    counted: list[int] = []
    assert processes.map(add, 100, iter(range(20)), counted.append) == list(range(100, 120))
    assert counted == list(range(1, 21))
    assert processes.map(add, 100, []) == []


def test_tasks_are_taken_as_workers_become_free() -> None:
    taken: list[int] = []

    def tasks() -> Iterator[int]:
        for number in range(12):
            taken.append(number)
            yield number

    def done(count: int) -> None:
        assert len(taken) <= count + executors.AHEAD * 2

    with ThreadPoolExecutor(2) as pool:
        assert workers_of(pool).map(slowly, 0.001, tasks(), done) == list(range(12))


def test_warnings_of_workers_are_given_once(processes: ProcessWorkers) -> None:
    with pytest.warns(QmlirWarning) as caught:
        pids = processes.map(warn, "said", range(6))
    assert sorted(str(w.message) for w in caught) == ["said 0", "said 1"]
    assert os.getpid() not in pids


def test_what_does_not_pickle_is_an_error(processes: ProcessWorkers) -> None:
    with pytest.raises(OptionError, match="can take only what pickles"):
        processes.map(add, lambda: 1, [1])  # pyright: ignore[reportArgumentType]


@pytest.mark.slow
def test_killed_processes_lose_nothing(tmp_path: Path) -> None:
    with ProcessWorkers(2) as workers:
        assert workers.map(end_once, str(tmp_path), range(12)) == [n * n for n in range(12)]
    assert len(list(tmp_path.iterdir())) == 3


@pytest.mark.slow
def test_processes_that_end_again_and_again_are_an_error() -> None:
    with ProcessWorkers(2, 1 << 31) as workers:
        got = r"got 2 processes, each with at most 2\.15 GB of memory"
        with pytest.raises(QmlirError, match=f"workers must not end again and again, {got}"):
            workers.map(end_always, 3, range(6))


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not limit the data of a process")
def test_the_memory_of_a_process_is_capped() -> None:
    with ProcessWorkers(2, 1 << 29) as workers:
        assert workers.map(allocate, 1, [1 << 20]) == [2]
        with pytest.raises(QmlirError, match="a task must fit the memory of a worker, got at most 537 MB"):
            workers.map(allocate, 1, [1 << 20, 1 << 30])
        assert workers.map(allocate, 1, [1 << 20]) == [2]
    with ProcessWorkers(2, 1 << 32) as workers:
        assert workers.map(allocate, 1, [1 << 30]) == [2]


# ---------------------------------------------------------------------------------------------------------------
# A Dask cluster


def test_a_cluster_computes_the_same(on_dask: DaskWorkers) -> None:
    assert on_dask.count == 2
    assert "2 workers at tcp://127.0.0.1" in on_dask.said
    assert on_dask.said.endswith("each with at most 1.07 GB of memory")
    assert on_dask.map(add, 100, iter(range(20))) == list(range(100, 120))
    with pytest.raises(FileError, match="must not fail at 5"):
        on_dask.map(fail_at, 5, range(40))


def kill_one(cluster: Any) -> None:
    """Kills the process of one of the cluster's workers."""
    os.kill(next(iter(cluster.workers.values())).process.pid, signal.SIGKILL)


@pytest.mark.slow
def test_a_killed_worker_of_a_cluster_loses_nothing(cluster: Any, on_dask: DaskWorkers) -> None:
    killed: list[int] = []

    def done(count: int) -> None:
        if count == 3 and not killed:
            killed.append(count)
            kill_one(cluster)

    assert on_dask.map(slowly, 0.05, range(40), done) == list(range(40))
    assert killed


# ---------------------------------------------------------------------------------------------------------------
# Profiles


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Small:
    return write_small(tmp_path_factory.mktemp("executors"))


def saved(small: Small, folder: Path, samples: Any, **options: Any) -> bytes:
    found = qmlir.profile(small.onnx, samples, per_channel=True, **options)
    found.save(path := folder / "profile.yaml")
    return path.read_bytes()


def samples_of(small: Small, count: int) -> list[Any]:
    rng = np.random.default_rng(5)
    return [rng.standard_normal((1, *small.samples[0].shape)).astype(np.float32) for _ in range(count)]


@pytest.mark.slow
def test_profiles_of_workers_have_the_bytes_of_a_serial_one(
    small: Small, tmp_path: Path, processes: ProcessWorkers, on_dask: DaskWorkers
) -> None:
    samples, counted = samples_of(small, 37), list[int]()
    expected = saved(small, tmp_path, samples)
    assert saved(small, tmp_path, samples, workers=processes, done=counted.append) == expected
    assert counted[-1] == 37
    assert saved(small, tmp_path, iter(samples), workers=processes) == expected
    assert saved(small, tmp_path, samples, workers=on_dask) == expected
    with ThreadPoolExecutor(2) as pool:
        assert saved(small, tmp_path, samples, workers=pool) == expected


def test_workers_read_samples_themselves(small: Small, tmp_path: Path, processes: ProcessWorkers) -> None:
    np.save(tmp_path / "x.npy", np.concatenate(samples_of(small, 21)))
    read = qmlir.read_samples(tmp_path / "x.npy", small.onnx)
    used, _ = read.split(17)
    assert saved(small, tmp_path, used, workers=processes) == saved(small, tmp_path, used)


@pytest.mark.slow
def test_a_profile_survives_a_killed_worker(small: Small, tmp_path: Path, cluster: Any, on_dask: DaskWorkers) -> None:
    samples = samples_of(small, 200)
    expected = saved(small, tmp_path, samples)
    killed = threading.Event()

    def done(count: int) -> None:
        if not killed.is_set():
            killed.set()
            kill_one(cluster)

    assert saved(small, tmp_path, samples, workers=on_dask, done=done) == expected
    assert killed.is_set()


@pytest.mark.slow
def test_errors_of_shards_name_the_sample(small: Small, processes: ProcessWorkers) -> None:
    samples = samples_of(small, 20)
    samples[11][0, 0] = np.nan
    with pytest.raises(ProfileError) as serial:
        qmlir.profile(small.onnx, samples)
    with pytest.raises(ProfileError) as sharded:
        qmlir.profile(small.onnx, samples, workers=processes)
    assert str(sharded.value) == str(serial.value)
    assert "11" in str(serial.value)
    with pytest.raises(ProfileError, match="must hold at least one sample"):
        qmlir.profile(small.onnx, [], workers=processes)
