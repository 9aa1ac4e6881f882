"""What looks along data movement and sums: along chains deeper than Python's stack, and where paths meet again.

Each chain has 1,100 operations. Where paths meet, each step joins its operand with itself, so that the paths through
60 of them outnumber what any walk without a memory can take.
"""

from collections.abc import Callable, Iterable
from itertools import pairwise

import pytest
from xdsl.dialects.builtin import ModuleOp

from qmlir.analysis.tune.layers import layers_of
from qmlir.dialects.nn import ReluOp, SoftmaxOp
from qmlir.ir.signature import main_function
from qmlir.transforms.nn.fuse_activation import FuseActivationPass
from qmlir.transforms.quantize.ranges.masks import masked_scores
from qmlir.transforms.verify_integer_only import BETWEEN, ENTRY, EXIT, float_operations
from tests.transforms.quantize.calibrated import parsed

QUANTIZED = "!quant.uniform<i8:f32, 0.5>"

Steps = Callable[[str, str], Iterable[str]]
"""Writes operations from a value to another."""


def reshapes(element: str) -> Steps:
    """A chain of reshapes to and fro."""
    shapes = [f"tensor<2x4x{element}>", f"tensor<8x{element}>"]

    def write(x: str, y: str) -> Iterable[str]:
        names = [x, *(f"{y}_{n}" for n in range(1099)), y]
        for n in range(1100):
            old, new = shapes if n % 2 == 0 else shapes[::-1]
            sizes = "8" if n % 2 == 0 else "2, 4"
            yield f"{names[n + 1]} = nn.reshape {names[n]} {{shape = array<i64: {sizes}>}} : {old} -> {new}"

    return write


def meeting(element: str) -> Steps:
    """A chain of concatenations of a value with itself, each cut to the old shape."""
    narrow, wide = f"tensor<2x4x{element}>", f"tensor<4x4x{element}>"

    def write(x: str, y: str) -> Iterable[str]:
        names = [x, *(f"{y}_{n}" for n in range(59)), y]
        for n in range(60):
            yield f"{y}_w{n} = nn.concat {names[n]}, {names[n]} {{axis = 0 : i64}} : {narrow}, {narrow} -> {wide}"
            yield (
                f"{names[n + 1]} = nn.slice {y}_w{n} {{offsets = array<i64: 1, 0>, sizes = array<i64: 2, 4>, "
                f"strides = array<i64: 1, 1>}} : {wide} -> {narrow}"
            )

    return write


WALKS = {"deep": reshapes, "meeting": meeting}


def network(lines: Iterable[str], given: str = "tensor<2x4xf32>", made: str = "tensor<2x4xf32>") -> ModuleOp:
    """A function from %x to %y."""
    body = "\n".join(lines)
    return parsed(f"func.func @main(%x: {given}) -> {made} {{\n{body}\nfunc.return %y : {made}\n}}")


@pytest.mark.slow
@pytest.mark.parametrize("walk", WALKS)
def test_floats_at_both_ends(walk: str) -> None:
    """Floats are moved, quantized, dequantized, moved and returned."""
    floats = WALKS[walk]("f32")
    lines = [
        *floats("%x", "%a"),
        f"%b = quant.qcast %a : tensor<2x4xf32> to tensor<2x4x{QUANTIZED}>",
        f"%d = quant.dcast %b : tensor<2x4x{QUANTIZED}> to tensor<2x4xf32>",
        *floats("%d", "%y"),
    ]
    places = [found.place for found in float_operations(network(lines))]
    moves = len(list(floats("%x", "%a")))
    assert places == [ENTRY] * (moves + 1) + [EXIT] * (moves + 1)


@pytest.mark.slow
@pytest.mark.parametrize("walk", WALKS)
def test_floats_that_something_computes_on(walk: str) -> None:
    floats = WALKS[walk]("f32")
    lines = [*floats("%x", "%a"), "%b = nn.sigmoid %a : tensor<2x4xf32> -> tensor<2x4xf32>", *floats("%b", "%y")]
    places = [found.place for found in float_operations(network(lines))]
    moves = len(list(floats("%x", "%a")))
    assert places == [ENTRY] * moves + [BETWEEN] * (moves + 1)


@pytest.mark.slow
@pytest.mark.parametrize("walk", WALKS)
def test_the_layers_behind_a_layer(walk: str) -> None:
    """The tuner looks for the readers of a layer behind all that moves its result."""
    kind = f"tensor<2x4x{QUANTIZED}>"
    names = [f'{{qmlir.name = #qmlir.name<tensors ["{name}"]>}}' for name in ("first", "second")]
    lines = [
        f"%a = nn.sigmoid %x {names[0]} : {kind} -> {kind}",
        *WALKS[walk](QUANTIZED)("%a", "%b"),
        f"%y = nn.tanh %b {names[1]} : {kind} -> {kind}",
    ]
    layers = {layer.tensor: layer.readers for layer in layers_of(network(lines, kind, kind))}
    assert layers == {"first": ("second",), "second": ()}


@pytest.mark.parametrize("walk", WALKS)
def test_activations_behind_movement(walk: str) -> None:
    """An activation moves above reshapes one by one, if a sum is before all of them that takes it."""
    lines = [
        "%a = nn.add %x, %x : tensor<2x4xf32>, tensor<2x4xf32> -> tensor<2x4xf32>",
        *list(WALKS[walk]("f32")("%a", "%b"))[:100],
    ]
    last = lines[-1].partition(" = ")[0]
    lines += [f"%y = nn.relu {last} : tensor<2x4xf32> -> tensor<2x4xf32>"]
    module = network(lines)
    FuseActivationPass.run(module)
    relus = sum(isinstance(op, ReluOp) for op in module.walk())
    assert relus == (0 if walk == "deep" else 1)


@pytest.mark.slow
@pytest.mark.parametrize("masked", [False, True])
def test_sums_before_a_softmax(*, masked: bool) -> None:
    """A mask is looked for among all that is added to scores."""
    lines = [f"%m = nn.constant <tensor<1xf32>, [{'-1.0e9' if masked else '1.0'}]> : tensor<1xf32>"]
    names = ["%m", *(f"%s{n}" for n in range(1100))]
    lines += [f"{y} = nn.add {x}, %c : tensor<1xf32>, tensor<1xf32> -> tensor<1xf32>" for x, y in pairwise(names)]
    lines.insert(0, "%c = nn.constant <tensor<1xf32>, [0.5]> : tensor<1xf32>")
    lines += [
        f"%z = nn.add %x, {names[-1]} : tensor<2x4xf32>, tensor<1xf32> -> tensor<2x4xf32>",
        "%y = nn.softmax %z {axis = 1 : i64} : tensor<2x4xf32> -> tensor<2x4xf32>",
    ]
    module = network(lines)
    found = masked_scores(main_function(module).body.block)
    assert [len(each.mask) for each in found] == ([1101] if masked else [])
    assert sum(isinstance(op, SoftmaxOp) for op in module.walk()) == 1


def test_masks_that_are_added_to_themselves() -> None:
    lines = ["%m0 = nn.constant <tensor<1xf32>, [-1.0e9]> : tensor<1xf32>"]
    lines += [f"%m{n + 1} = nn.add %m{n}, %m{n} : tensor<1xf32>, tensor<1xf32> -> tensor<1xf32>" for n in range(60)]
    lines += [
        "%z = nn.add %x, %m60 : tensor<2x4xf32>, tensor<1xf32> -> tensor<2x4xf32>",
        "%y = nn.softmax %z {axis = 1 : i64} : tensor<2x4xf32> -> tensor<2x4xf32>",
    ]
    (found,) = masked_scores(main_function(network(lines)).body.block)
    assert len(found.mask) == 61
