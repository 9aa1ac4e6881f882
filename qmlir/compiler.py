"""Every pass by name, found lazily.

`PASSES` is the compiler's table of contents: pass name → `module:Class`. A module is imported when its pass is
asked for. xDSL's own passes can be used under their names as well; ours win.
"""

from importlib import import_module

from xdsl.passes import ModulePass
from xdsl.transforms import get_all_passes

from qmlir.errors import OptionError
from qmlir.near_misses import near_misses

PASSES: dict[str, str] = {
    "canonicalize": "xdsl.transforms.canonicalize:CanonicalizePass",
    "cse": "xdsl.transforms.common_subexpression_elimination:CommonSubexpressionElimination",
    "dce": "xdsl.transforms.dead_code_elimination:DeadCodeElimination",
    "convert-scf-to-cf": "xdsl.transforms.convert_scf_to_cf:ConvertScfToCf",
}
"""Pass name → `module:Class`; the drivers list these."""


def pass_class(name: str) -> type[ModulePass]:
    """The pass called `name`.

    Raises:
        OptionError: There is no such pass; names near misses.
    """
    if (reference := PASSES.get(name)) is not None:
        module, _, attribute = reference.partition(":")
        return getattr(import_module(module), attribute)
    if (factory := get_all_passes().get(name)) is not None:
        return factory()
    raise OptionError(name, "there is no such pass", remedy=near_misses(name, [*PASSES, *get_all_passes()]))
