"""What all tests share: the seeds, and where the models and data of `$QMLIR_SHARED` are."""

import os
import tarfile
from collections.abc import Callable, Iterator, Mapping
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
    """LLVM compiles a text for a processor once a process: many tests compile the same small networks in other ways."""
    from qmlir.backends.cpu import jit

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jit, "compile_object", lru_cache(maxsize=500)(jit.compile_object))
        yield


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
