"""The examples in docstrings of the public functions and classes run, and each of these has one."""

import doctest
import inspect
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import qmlir
from qmlir import plugins
from tests.packages import site as site

PUBLIC: dict[str, Any] = {name: getattr(qmlir, name) for name in qmlir.__all__}


@pytest.mark.slow
@pytest.mark.parametrize("name", [*PUBLIC, "known_plugins"])
def test_examples_run(
    name: str, root: Path, site: Path, kept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QMLIR_CACHE", str(kept))
    for file in ("digits.onnx", "digits.npz", "model.mlir"):
        shutil.copy(root / "examples" / "digits" / file, tmp_path)
    monkeypatch.chdir(tmp_path)
    samples = list(np.load("digits.npz")["calibration_images"][:8, None])
    described = PUBLIC.get(name, plugins.known_plugins)
    module = inspect.getmodule(described)
    scope = {**vars(module), "samples": samples}
    (test,) = [t for t in doctest.DocTestFinder(recurse=False).find(described, name, globs=scope) if t.examples]
    said: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    assert runner.run(test, out=said.append).failed == 0, "".join(said)
