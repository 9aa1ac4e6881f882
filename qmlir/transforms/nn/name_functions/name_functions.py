"""The pass `name-functions`: finds functions, normalizations and softmaxes that a model writes as several operators.

Enters and leaves: nn in float. Exporters of operator sets without Gelu write it as six operators or more, of which each
would be rounded for itself in a quantized network. As one operation it has one lookup table, which is rounded once; a
normalization has one integer form, whose squares and roots keep all their digits. The floats are those of the model but
for their last bits: the function is computed in float64 and rounded once.

A function is known by its values, not by its operators (probes.py), so that it does not matter how it is spelled.
"""

from collections.abc import Callable, Sequence

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation
from xdsl.pattern_rewriter import PatternRewriter

from qmlir.dialects import nn
from qmlir.dialects.nn.base import is_float
from qmlir.dialects.nn.elementwise import FunctionOp, PointwiseOp
from qmlir.ir.rewriting import PatternPass, replace
from qmlir.policies.runtimes import follows_litert, runtime_of
from qmlir.transforms.nn.name_functions.cones import Cone, Named, cones
from qmlir.transforms.nn.name_functions.functions import NAMES, Name, name_function
from qmlir.transforms.nn.name_functions.hidden_rows import (
    ChooseBehindProduct,
    NameInfinityTest,
    TestMaskForRows,
    UnmaskHiddenRows,
)
from qmlir.transforms.nn.name_functions.hinges import name_hinge
from qmlir.transforms.nn.name_functions.norms import name_norm
from qmlir.transforms.nn.name_functions.probes import MOVED, is_readable

Naming = Callable[[Cone], Named | None]
"""Gives the operations that compute a cone's end from its base by name, or None."""


ENDS = (nn.LogOp, nn.ExpOp, nn.ReciprocalOp, nn.NegOp, nn.ReluOp, nn.ClampOp)
"""The functions of one element with which a spelling of another function may end."""


def may_end(op: Operation) -> bool:
    """Whether an operation may be the last of several that compute a named function: no spelling ends with a sine."""
    return not isinstance(op, FunctionOp) or isinstance(op, ENDS)


def name_all(module: ModuleOp, naming: Naming) -> bool:
    """Names what the cones of a module compute; returns whether there was anything to name."""
    blocks = {op.parent: None for op in module.walk() if isinstance(op, PointwiseOp)}
    return any([_Block(block, naming).name() for block in blocks if block is not None])


class _Block:
    """Names what the cones of a block compute."""

    def __init__(self, block: Block, naming: Naming):
        self.naming = naming
        self.places: dict[Operation, float] = {op: i for i, op in enumerate(block.ops) if is_readable(op)}

    def name(self) -> bool:
        """Names operations in their order; products and sums behind a name stay those of the model where they can."""
        changed, later = False, list[Operation]()
        for op in list(self.places):
            if op.parent is None or isinstance(op, MOVED) or not is_float(op.results[0]) or not may_end(op):
                continue
            found = self._found(op)
            if plain := [(cone, named) for cone, named in found if named.plain]:
                self._replace(op, *plain[0])
                changed = True
            elif found:
                later.append(op)
        for op in later:
            if op.parent is not None and (found := self._found(op)):
                self._replace(op, *found[0])
                changed = True
        return changed

    def _found(self, end: Operation) -> list[tuple[Cone, Named]]:
        """The names of an operation's cones, first that which saves the most operations, of these the smallest."""
        found = [(cone, named) for cone in cones(end, self.places) if (named := self.naming(cone)) is not None]
        saved = [(len(cone.computing) - named.cost, cone, named) for cone, named in found]
        return [(cone, named) for count, cone, named in sorted(saved, key=lambda s: -s[0]) if count > 0]

    def _replace(self, op: Operation, cone: Cone, named: Named) -> None:
        new = named.write()
        computing = [o for o in new if not isinstance(o, (*MOVED, nn.ConstantOp))]
        doing = computing[0] if len(computing) == 1 else None
        place = self.places.pop(op)
        absorbed = [*cone.constants(), *cone.operations[:-1]]
        replace(PatternRewriter(op), op, new, absorbing=absorbed, doing=doing)
        self.places |= {o: place + i / len(new) / 2 for i, o in enumerate(new) if is_readable(o)}


class NameFunctionsPass(PatternPass):
    """Replaces the operators that a model writes a GELU, a normalization, a softmax … as, by one operation.

    Comparisons with ∞ become `nn.is_inf`, and tests for rows of a softmax that a constant mask hides constants.

    ```mlir
    %0 = nn.div %x, %root : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
    %1 = nn.erf %0 : tensor<4xf32> -> tensor<4xf32>
    %2 = nn.add %1, %one : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
    %3 = nn.mul %x, %2 : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
    %4 = nn.mul %3, %half : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
    // becomes
    %4 = nn.gelu %x : tensor<4xf32> -> tensor<4xf32>
    ```
    """

    name = "name-functions"
    PATTERNS = (NameInfinityTest(), TestMaskForRows(), UnmaskHiddenRows(), ChooseBehindProduct())

    @classmethod
    def run(cls, module: ModuleOp) -> bool:
        # LiteRT computes on floats what the model has on floats.
        if follows_litert(runtime_of(module)):
            return False
        changed = super().run(module)
        return name_all(module, name) or changed


def name(cone: Cone, names: Sequence[Name] = NAMES) -> Named | None:
    """The operations that compute a cone's end from its base by name: a function, a normalization, or a softmax."""
    return name_function(cone, names) or name_norm(cone) or name_hinge(cone)
