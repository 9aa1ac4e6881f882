"""Remedies of reading TOSA, and of samples for networks."""

from pathlib import Path

import numpy as np
import pytest

import qmlir
from tests.remedies.case import Action, Case, check, passes
from tests.remedies.test_lowerings import edited, function


def of_tosa(text: str, *edits: tuple[str, str]) -> Case:
    """A module of tosa that is not read, and the module with its text edited, which is."""
    return edited(text, ("tosa-to-nn",), *edits)


REDUCED = function(
    '  %y = "tosa.reduce_max"(%x) <{axis = 0 : i32, nan_mode = #tosa.nan_mode<IGNORE>}> '
    ": (tensor<4xf32>) -> tensor<1xf32>",
    "%x: tensor<4xf32>",
    "tensor<1xf32>",
)
NEGATED = function(
    '  %y = "tosa.negate"(%x, %z, %z) : (tensor<4xi8>, tensor<1xi8>, tensor<1xi8>) -> tensor<4xi8>',
    "%x: tensor<4xi8>, %z: tensor<1xi8>",
    "tensor<4xi8>",
)
POINT = '%z = "tosa.const"() <{values = dense<0> : tensor<1xi8>}> : () -> tensor<1xi8>'
VOLUME = function(
    f"""  {POINT.replace("i8", "f32").replace("<0>", "<0.0>")}
  %y = "tosa.conv3d"(%x, %w, %z, %z, %z) <{{stride = array<i64: 1, 1, 1>, dilation = array<i64: 1, 1, 1>,
    pad = array<i64: 0, 0, 0, 0, 0, 0>, acc_type = f32}}> : (tensor<1x1x4x4x2xf32>, tensor<3x1x2x2x2xf32>,
    tensor<1xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<1x1x3x3x3xf32>""",
    "%x: tensor<1x1x4x4x2xf32>, %w: tensor<3x1x2x2x2xf32>",
    "tensor<1x1x3x3x3xf32>",
)
RESIZED = function(
    """  %s = "tosa.const_shape"() <{values = dense<[2, 1, 2, 1]> : tensor<4xindex>}> : () -> !tosa.shape<4>
  %o = "tosa.const_shape"() <{values = dense<0> : tensor<2xindex>}> : () -> !tosa.shape<2>
  %y = "tosa.resize"(%x, %s, %o, %o) <{mode = #tosa.resize_mode<BILINEAR>}>
    : (tensor<1x2x2x1xi16>, !tosa.shape<4>, !tosa.shape<2>, !tosa.shape<2>) -> tensor<1x3x3x1xi48>""",
    "%x: tensor<1x2x2x1xi16>",
    "tensor<1x3x3x1xi48>",
)


def product(element: str) -> Action:
    """Reads a matrix product of integers."""
    text = function(
        f"""  {POINT.replace("i8", element)}
  %y = "tosa.matmul"(%x, %x, %z, %z) : (tensor<1x2x2x{element}>, tensor<1x2x2x{element}>, tensor<1x{element}>,
    tensor<1x{element}>) -> tensor<1x2x2xi32>""",
        f"%x: tensor<1x2x2x{element}>",
        "tensor<1x2x2xi32>",
    )
    return passes(text, "tosa-to-nn")


OTHER = function("  %y = arith.addf %x, %x : tensor<4xf32>", "%x: tensor<4xf32>", "tensor<4xf32>")
OTHER = OTHER.replace("{\n", '{\n  %0 = "tosa.abs"(%x) : (tensor<4xf32>) -> tensor<4xf32>\n')
DYNAMIC = function('  %y = "tosa.abs"(%x) : (tensor<?xf32>) -> tensor<?xf32>', "%x: tensor<?xf32>", "tensor<?xf32>")

FOREIGN = function(
    '  %y = qmlir.opaque "Odd" (%x) {reason = "unknown", source = {}} : (tensor<4xf32>) -> tensor<*xf32>',
    "%x: tensor<4xf32>",
    "tensor<*xf32>",
)


def sampled(network: str) -> Action:
    """Reads samples for a network."""

    def read(folder: Path) -> None:
        (folder / "net.mlir").write_text(network)
        np.savez(folder / "x.npz", input0=np.ones((2, 4), np.float32))
        qmlir.read_samples(folder / "x.npz", folder / "net.mlir")

    return read


CASES = {
    "state its type in the model, or leave it out": Case(sampled(FOREIGN), sampled(FOREIGN.replace("*x", "4x"))),
    "export it with nan_mode PROPAGATE": of_tosa(REDUCED, ("IGNORE", "PROPAGATE")),
    "fold it before the export": of_tosa(NEGATED, (", %z: tensor<1xi8>", ""), ("{\n", "{\n  " + POINT + "\n")),
    "write it as convolutions of slices": of_tosa(
        VOLUME,
        ("conv3d", "conv2d"),
        ("1x1x4x4x2", "1x4x4x2"),
        ("3x1x2x2x2", "3x2x2x2"),
        ("1x1x3x3x3", "1x3x3x3"),
        ("<i64: 1, 1, 1>", "<i64: 1, 1>"),
        ("<i64: 0, 0, 0, 0, 0, 0>", "<i64: 0, 0, 0, 0>"),
    ),
    "quantize it to 8 or 16 bits": Case(product("i32"), product("i8")),
    "quantize it to 8 bits": of_tosa(RESIZED, ("i16", "i8"), ("i48", "i32")),
    "export it with static shapes": of_tosa(DYNAMIC, ("?", "4")),
    "export the network without it": of_tosa(OTHER, ("arith.addf %x, %x :", '"tosa.abs"(%0) : (tensor<4xf32>) ->')),
}


@pytest.mark.parametrize("text", CASES)
def test_what_reading_tells_works(text: str, folder: Path) -> None:
    check(text, CASES[text], folder)
