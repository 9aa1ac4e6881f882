"""qmlir's dialects and passes for `xdsl-opt`, which finds them through the entry point `xdsl.universe`.

    xdsl-opt -p simplify,nn-to-qint model.mlir

A universe may not have a name that xDSL has. So xdsl-opt reads `llvm`, `arith`, `tensor` and `tosa` by xDSL's own
dialects, which lack some operations that qmlir's passes below `qint` make (ir/upstream). The passes work on xDSL's
plain context, which does not know the folder of the file: side files are sought in the working directory.

Only xdsl-opt imports this module; dialects and passes are imported when it uses them.
"""

from collections.abc import Callable

from xdsl.dialects import get_all_dialects
from xdsl.passes import ModulePass
from xdsl.transforms import get_all_passes
from xdsl.universe import Universe

from qmlir.ir.context import DIALECTS, dialect_of
from qmlir.ir.passes import PASSES, pass_class


def _factory(name: str) -> Callable[[], type[ModulePass]]:
    return lambda: pass_class(name)


QMLIR_UNIVERSE = Universe(
    all_dialects={name: dialect_of(at) for name, at in DIALECTS.items() if name not in get_all_dialects()},
    all_passes={name: _factory(name) for name in PASSES if name not in get_all_passes()},
)
"""The dialects and the passes of qmlir that xDSL does not have under the same names."""
