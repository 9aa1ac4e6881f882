"""What all tests share: the seeds, which combinations run, and where the models and data of `$QMLIR_SHARED` are."""

import gc
import os
import tarfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import hypothesis
import numpy as np
import pytest

os.environ["QMLIR_CACHE"] = "off"  # tests neither read nor write the user's cache, nor do the commands that they run
os.environ.pop("COLUMNS", None)  # tables are as wide as for a pipe, whatever the terminal of whoever runs the tests

ROOT = Path(__file__).resolve().parent.parent

THOROUGH = bool(os.environ.get("QMLIR_CONFORMANCE"))
"""Whether `make conformance` runs the tests, with all that is drawn at random, or `make test`, with a seeded part."""

hypothesis.settings.register_profile("ci", derandomize=True, deadline=None, database=None)
hypothesis.settings.register_profile("explore", deadline=None, max_examples=2000)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


Values = frozenset[tuple[str, int]]
"""The parameters of a test by name, each with the identity of its value."""


def covering(combinations: Sequence[Values], times: int = 1) -> list[int]:
    """Chooses few combinations that have every value of each parameter `times` or more; returns their numbers.

    The next is always the one with the most values that are still wanted, then with the values chosen the fewest times:
    so the values of a short parameter take turns along a long one.
    """
    wanted = Counter(value for values in combinations for value in values)
    wanted = Counter({value: min(times, count) for value, count in wanted.items()})
    taken: Counter[tuple[str, int]] = Counter()
    left, chosen = list(range(len(combinations))), list[int]()
    while any(taken[value] < count for value, count in wanted.items()):
        best = min(
            left,
            key=lambda n: (
                -sum(taken[value] < wanted[value] for value in combinations[n]),
                sum(taken[value] for value in combinations[n]),
                n,
            ),
        )
        left.remove(best)
        chosen.append(best)
        taken.update(combinations[best])
    return chosen


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of the combinations of a test marked `crossed`, keeps few with every value.

    `make conformance` runs all, and `make models` those of trained networks.
    """
    if THOROUGH or "QMLIR_MODELS_SHARE" in os.environ:
        return
    groups: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("crossed") is not None and hasattr(item, "callspec"):
            groups.setdefault(item.nodeid.partition("[")[0], []).append(item)
    left_out = {item for group in groups.values() for item in _left_out(group)}
    if left_out:
        config.hook.pytest_deselected(items=[item for item in items if item in left_out])
        items[:] = [item for item in items if item not in left_out]


def _left_out(group: Sequence[pytest.Item]) -> Iterator[pytest.Item]:
    """The combinations of one test that `make test` does not run."""
    marker = group[0].get_closest_marker("crossed")
    times = marker.args[0] if marker is not None and marker.args else 1
    names = _rows(group[0])
    parameters = [getattr(item, "callspec").params for item in group]  # all hold the objects of the same lists
    combinations = [
        frozenset((row, hash(tuple(id(each[name]) for name in row.split(",")))) for row in names) for each in parameters
    ]
    kept = set(covering(combinations, times))
    return (item for number, item in enumerate(group) if number not in kept)


def _rows(item: pytest.Item) -> list[str]:
    """The parameters of a test, those that one list gives together as one: `rows,columns`.

    A test with one list has its parameters one by one: otherwise all of its rows would run.
    """
    given = [mark.args[0] for mark in item.iter_markers("parametrize")]
    lists = [[n.strip() for n in names.split(",")] if isinstance(names, str) else list(names) for names in given]
    others = [[name] for name in getattr(item, "callspec").params if not any(name in names for names in lists)]
    lists += others
    return [",".join(names) for names in lists] if len(lists) > 1 else lists[0]


def pytest_collection_finish() -> None:
    """Modules and tests stay: the collector of garbage need not look through them again and again."""
    gc.collect()
    gc.freeze()


_SEEDED: dict[str, Mapping[str, Any]] = {}  # the state of each test module's RNG, as importing it left it


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Each test draws the same numbers from its module's RNG, whichever tests ran before it in this process."""
    module = item.getparent(pytest.Module)
    generator = getattr(module.obj, "RNG", None) if module is not None else None
    if isinstance(generator, np.random.Generator):
        state = _SEEDED.setdefault(item.nodeid.partition("::")[0], generator.bit_generator.state)
        generator.bit_generator.state = state


@pytest.fixture(scope="session", autouse=True)
def compiled_once() -> Iterator[None]:
    """LLVM compiles a text for a processor once a process: many tests compile the same small networks in other ways.

    So are the parsers of the command line, of which each command builds all, made once for the plugins that there are;
    and the processor's peak, which each measurement shows beside its figures, is the best of few runs.
    """
    from qmlir import plugins
    from qmlir.backends.cpu import jit, peak
    from qmlir.cli import bench, main, report

    build = main._parser

    @lru_cache(maxsize=20)
    def parser(names: tuple[tuple[str, str], ...], seconds: tuple[float, float]) -> object:
        return build()

    def known() -> object:
        names = tuple((each.group, each.name) for each in plugins.known_plugins())
        return parser(names, (bench.SECONDS, report.SECONDS))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jit, "compile_object", lru_cache(maxsize=500)(jit.compile_object))
        patch.setattr(peak, "PEAK_RUNS", 5)
        patch.setattr(main, "_parser", known)
        yield


@pytest.fixture(scope="session")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that keeps compiled networks, for $QMLIR_CACHE of tests that compile the same networks again.

    All processes of a run of the tests share it.
    """
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    (folder / "kept").mkdir(exist_ok=True)
    return folder / "kept"


@pytest.fixture(scope="session")
def root() -> Path:
    """The top of the repository."""
    return ROOT


@pytest.fixture(scope="session")
def shared() -> Callable[[str], Path]:
    """Finds a file or a folder of the shared data.

    shared("models/onnx/mnist-8.onnx") is a path below $QMLIR_SHARED, where it has to be; or, if that is not set, below
    ../shared, and a test that needs it is skipped where it is missing.
    """
    folder = Path(os.environ.get("QMLIR_SHARED", ROOT.parent / "shared"))

    def find(name: str) -> Path:
        path = folder / name
        if not path.exists():
            if "QMLIR_SHARED" in os.environ:
                pytest.fail(f"{name} is not in {folder}, which QMLIR_SHARED names")
            pytest.skip(f"{name} is not in {folder}; set QMLIR_SHARED to the folder that has it")
        return path

    return find


def unpack(archive: Path, folder: Path) -> None:
    """Unpacks a tar file, nothing of it outside the folder where this Python can see to that (3.11.4 and later)."""
    with tarfile.open(archive) as file:
        if hasattr(tarfile, "data_filter"):
            file.extractall(folder, filter="data")
        else:
            file.extractall(folder)
