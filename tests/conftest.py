"""What all tests share: the seeds, which combinations run, and where the models and data of `$QMLIR_SHARED` are."""

import gc
import os
import tarfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import product
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


def crossed(lists: Mapping[str, Iterable[Any]], turns: int = 1, indirect: Sequence[str] = ()) -> Callable[[Any], Any]:
    """Parametrizes a test by several lists, each under the names that `parametrize` would give its values.

    `make conformance` runs all combinations, and `make models` those of trained networks. `make test` goes through the
    longest list and takes the values of the others in turn: {"a": [1, 2, 3], "b": "xy"} gives 1-x, 2-y, 3-x. Each
    further turn through the longest list moves the others on like the digits of a counter: 1-y, 2-x, 3-y.
    """
    values = [list(each) for each in lists.values()]
    combinations: Iterable[tuple[Any, ...]] = product(*values)
    if not THOROUGH and "QMLIR_MODELS_SHARE" not in os.environ:
        combinations = taken_in_turn(values, turns)
    groups = [[name.strip() for name in names.split(",")] for names in lists]
    names = [name for group in groups for name in group]
    rows = [
        [v for group, value in zip(groups, row, strict=True) for v in (value if len(group) > 1 else [value])]
        for row in combinations
    ]
    parametrize = pytest.mark.parametrize(names, rows, ids=_label, indirect=list(indirect))
    return lambda test: pytest.mark.crossed(parametrize(test))


def taken_in_turn(lists: Sequence[Sequence[Any]], turns: int = 1) -> Iterator[tuple[Any, ...]]:
    """Combinations that have every value of the longest list `turns` times, and the values of the others in turn."""
    longest = max(lists, key=len)
    for turn, n in product(range(turns), range(len(longest))):
        row, ahead = list[Any](), turn
        for each in lists:
            ahead, step = (ahead, 0) if each is longest else divmod(ahead, len(each))
            row.append(each[(n + step) % len(each)])
        yield tuple(row)


def _label(value: object) -> str | None:
    """The part of a test's name that a value is: its own name, or what it prints as if it says so; else pytest's."""
    name = getattr(value, "name", None)
    if isinstance(name, str):
        return name
    return None if isinstance(value, (np.ndarray, type)) or type(value).__str__ is object.__str__ else str(value)


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
