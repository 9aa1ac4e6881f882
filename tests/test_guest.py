"""qmlir is a guest in the programs that import it: of what a process shares, imports change nothing."""

import subprocess
import sys
from pathlib import Path

import pytest

STATE = """
import gc, locale, logging, os, signal, sys, threading, warnings
import numpy as np
from xdsl import irdl, parser, printer, traits
from xdsl.dialects import arith, builtin, func, llvm, memref, scf, tensor, tosa
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

def state():
    modules = (irdl, parser, printer, traits, arith, builtin, func, llvm, memref, scf, tensor, tosa)
    classes = {Attribute, Block, Operation, Region, SSAValue}
    classes |= {c for m in modules for c in vars(m).values() if isinstance(c, type) and c.__module__.startswith("xdsl")}
    # What xDSL computes once and keeps with a class begins with an underscore, or is the cache of a property.
    held = {(c.__module__, c.__qualname__, n): id(v) for c in classes for n, v in vars(c).items() if n[:1] != "_"}
    process = {
        "collector": (gc.get_threshold(), gc.isenabled(), gc.get_freeze_count(), len(gc.callbacks)),
        "environment": dict(os.environ), "folder": os.getcwd(), "locale": locale.setlocale(locale.LC_ALL),
        "hooks": (sys.excepthook, sys.displayhook, sys.unraisablehook, threading.excepthook),
        "limits": (sys.getrecursionlimit(), sys.getswitchinterval(), sys.get_int_max_str_digits()),
        "streams": (sys.stdin, sys.stdout, sys.stderr), "path": list(sys.path), "finders": list(sys.meta_path),
        "signals": [signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM, signal.SIGPIPE)],
        "warnings": list(warnings.filters), "numpy": (np.geterr(), np.get_printoptions()),
        "logging": (logging.root.level, list(logging.root.handlers)), "threads": threading.active_count(),
    }
    return held | process

before = state()
import qmlir
for name in qmlir.__all__:
    getattr(qmlir, name)
after = state()
for key in before:
    if before[key] != after.get(key):
        print(key, before[key], after.get(key))
"""


@pytest.mark.slow
def test_imports_change_nothing_of_the_process(root: Path, tmp_path: Path) -> None:
    program = [sys.executable, "-c", STATE]
    environment = {"PYTHONPATH": str(root), "HOME": str(tmp_path)}
    done = subprocess.run(program, capture_output=True, text=True, check=True, cwd=tmp_path, env=environment)
    assert done.stdout == ""
