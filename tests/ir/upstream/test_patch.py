"""The patch for xDSL applies to the installed version, accepts what xDSL accepts, and leaves its errors as they are."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import xdsl

from qmlir.ir.upstream.patch import ADDED, patch

PROGRAM = '''
import xdsl.irdl
from xdsl.context import Context
from xdsl.dialects import get_all_dialects
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser
from xdsl.utils.exceptions import VerifyException

context = Context(allow_unregistered=True)
for name, dialect in get_all_dialects().items():
    context.register_dialect(name, dialect)

def said(text):
    module = Parser(context, text).parse_module()
    try:
        module.verify()
    except VerifyException as error:
        return str(error)
    return "valid"

ADD = """"builtin.module"() ({{
  %x, %y = "test.op"() : () -> ({}, {})
  %z = "arith.addi"(%x, %y){} : ({}, {}) -> ({})
}}) : () -> ()"""
print(said(ADD.format("i32", "i32", "", "i32", "i32", "i32")))
print(said(ADD.format("i32", "i64", "", "i32", "i64", "i32")))
print(said(ADD.format("i32", "i32", " <{unknown = 1 : i32}>", "i32", "i32", "i32")))
print(said('"builtin.module"() ({"func.func"() ({}) : () -> ()}) : () -> ()'))
try:
    from xdsl.irdl import prepared
    print("prepared", prepared._KEY in vars(next(o for o in context.get_optional_dialect("arith").operations
          if o.name == "arith.addi").get_irdl_definition()))
except ImportError:
    print("as it was")
'''  # fmt: skip


@pytest.mark.slow
def test_xdsl_with_the_patch_says_what_it_said(tmp_path: Path) -> None:
    shutil.copytree(Path(xdsl.__file__).parent, tmp_path / "xdsl", ignore=shutil.ignore_patterns("__pycache__"))

    def said() -> list[str]:
        run = [sys.executable, "-c", PROGRAM]
        found = subprocess.run(
            run, cwd=tmp_path, capture_output=True, text=True, check=True, env={"PYTHONPATH": str(tmp_path)}
        )
        return found.stdout.splitlines()

    *before, as_it_was = said()
    (tmp_path / "prepared.patch").write_text(patch(), encoding="utf-8")
    subprocess.run(["git", "apply", "prepared.patch"], cwd=tmp_path, check=True)
    assert (tmp_path / ADDED).exists()
    *after, prepared = said()
    assert (as_it_was, prepared) == ("as it was", "prepared True")
    assert before == after
    assert before[0] == "valid"
    assert all(line != "valid" for line in before[1:4])
