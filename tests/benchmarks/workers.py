"""How much faster two workers of a Dask cluster profile ResNet-50 than one; the profiles must have the same bytes.

    python -m tests.benchmarks.workers [--pictures N] [--kill]

It needs resnet50.onnx in ~/.cache/qmlir-peers/models (or QMLIR_PEERS) and pictures in QMLIR_SHARED; where these are
fewer than N (1000), they are taken again and again. Each worker is a process with one thread. Where others use the
machine, too, the CPU seconds of the busiest worker say more than the time: no run on free processors is faster.
`--kill` kills one of the two workers with SIGKILL when a third of the pictures is done.
"""

import argparse
import os
import signal
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import qmlir
from qmlir.compiler import load
from qmlir.ir.context import make_context
from tests.models.accuracy import shared_file

PREPROCESS = "resize=256 scale=0.00392157 mean=0.485,0.456,0.406 std=0.229,0.224,0.225"


def profiled(
    module: Any, samples: Any, workers: int, folder: Path, *, kill: bool = False
) -> tuple[float, float, bytes]:
    """Profiles on a cluster of so many workers.

    Returns:
        The seconds, with what is sent and compiled; the CPU seconds of the busiest worker; and the profile's bytes.
    """
    import psutil
    from distributed import LocalCluster

    settings: Any = {"processes": True, "threads_per_worker": 1, "dashboard_address": None, "silence_logs": 50}
    local: Any = LocalCluster(n_workers=workers, **settings)
    with local as cluster:
        killed: list[int] = []

        def done(count: int) -> None:
            if kill and not killed and 3 * count >= len(samples):
                victim = next(iter(cluster.workers.values())).process.pid
                killed.append(victim)
                os.kill(victim, signal.SIGKILL)

        def busy() -> dict[int, float]:
            pids = [worker.process.pid for worker in cluster.workers.values()]
            return {pid: sum(psutil.Process(pid).cpu_times()[:2]) for pid in pids if psutil.pid_exists(pid)}

        before, start = busy(), time.perf_counter()
        found = qmlir.profile(module, samples, workers=cluster.scheduler_address, done=done)
        seconds = time.perf_counter() - start
        most = max(spent - before.get(pid, 0.0) for pid, spent in busy().items())
        assert bool(killed) == kill
    found.save(path := folder / "profile.yaml")
    return seconds, most, path.read_bytes()


def main() -> None:
    """Reads the command line and prints a line for each run."""
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pictures", type=int, default=1000)
    parser.add_argument("--kill", action="store_true")
    given = parser.parse_args()
    peers = Path(os.environ.get("QMLIR_PEERS") or Path.home() / ".cache" / "qmlir-peers")
    module = load(peers / "models" / "resnet50.onnx")
    qmlir.Pipeline("simplify").apply(module, make_context())
    samples = qmlir.read_samples(shared_file("data/imagenet1k-sample"), module, preprocess=PREPROCESS)
    samples = samples.of([i % len(samples) for i in range(given.pictures)])
    with tempfile.TemporaryDirectory() as folder:
        qmlir.profile(module, samples.first(1), workers=2)  # compiled code is kept on disk from now on
        times, spent = dict[int, float](), dict[int, float]()
        expected = b""
        for workers in (1, 2):
            load_now = os.getloadavg()[0]
            seconds, busy, content = profiled(module, samples, workers, Path(folder), kill=given.kill and workers == 2)
            assert not expected or content == expected, "the profiles differ"
            expected, times[workers], spent[workers] = content, seconds, busy
            how = ", one of them killed" if given.kill and workers == 2 else ""
            what = f"{len(samples)} pictures in {seconds:.1f} s, busiest {busy:.1f} s, load {load_now:.1f}"
            sys.stdout.write(f"{workers} workers{how}: {what}\n")
            sys.stdout.flush()
        ratios = f"{times[1] / times[2]:.2f} times as fast, {spent[1] / spent[2]:.2f} times by CPU of the busiest"
        sys.stdout.write(f"the same bytes; two workers are {ratios}\n")


if __name__ == "__main__":
    main()
