"""Faults planted in the packages of real accelerators: copies of a package, of which one module has another text."""

import importlib
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path
from types import ModuleType

_copies = count()


def faulty(
    package: ModuleType, folder: Path, module: str, old: str, new: str, imports: str = ""
) -> Callable[[str], ModuleType]:
    """Returns what imports modules, by their names, of a copy of a package with a fault.

    Args:
        package: The package, without packages inside.
        folder: Where the copy is written.
        module: The module that has the fault.
        old: A text that it has once.
        new: What stands there instead.
        imports: What the fault needs at the head of the module; the package's name in it becomes the copy's.
    """
    name = f"{package.__name__.rpartition('.')[2]}_{next(_copies)}_faulty"
    (folder / name).mkdir()
    for path in Path(package.__path__[0]).glob("*.py"):
        text = path.read_text("utf-8")
        if path.stem == module:
            assert text.count(old) == 1, f"{module} has {old!r} {text.count(old)} times"
            text = imports + text.replace(old, new)
        (folder / name / path.name).write_text(text.replace(package.__name__, name), "utf-8")
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()

    def imported(each: str) -> ModuleType:
        return importlib.import_module(f"{name}.{each}")

    return imported
