"""External data: mapped and not read, only from the model's folder, and a typed error for whatever else it says."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper
from xdsl.dialects.builtin import NoneType

from qmlir.compiler import save
from qmlir.dialects.nn.movement import ConstantOp
from qmlir.errors import FileError
from qmlir.frontends.onnx import load_onnx
from qmlir.frontends.onnx.reader import in_machine_order
from qmlir.frontends.onnx.types import element_dtype, element_type
from qmlir.ir.interfaces import Array
from qmlir.ir.source import read_mlir
from tests.frontends.onnx.agreement import floats, model, node, ops_of


def described(path: Path, shape: list[int], element: int = TensorProto.FLOAT, **entries: Any) -> Path:
    """Writes a model whose output is a tensor with these external data."""
    proto = model(node("Identity", "w"), {"x": [3]})
    tensor = proto.graph.initializer.add(name="w", data_type=element, dims=shape, data_location=TensorProto.EXTERNAL)
    for key, value in entries.items():
        tensor.external_data.add(key=key, value=value)
    path.write_bytes(proto.SerializeToString())
    return path


def weights(path: Path) -> Array:
    (constant,) = (o for o in ops_of(load_onnx(path)) if isinstance(o, ConstantOp))
    return constant.value.array


def is_mapped(array: Array) -> bool:
    base: object = array
    while isinstance(base, np.ndarray):
        if isinstance(base, np.memmap):
            return True
        base = base.base
    return False


@pytest.mark.parametrize("element", ["float32", "float64", "int8", "bool", "float16", "bfloat16", "float8_e4m3fn"])
def test_each_type_is_mapped(tmp_path: Path, element: str) -> None:
    stored = (floats(5, 7) * 10).astype(np.dtype(getattr(ml_dtypes, element, element)))
    (tmp_path / "data").write_bytes(b"12345678" + stored.tobytes() + b"more")
    code = onnx.helper.np_dtype_to_tensor_dtype(stored.dtype)
    file = described(tmp_path / "net.onnx", [5, 7], code, location="data", offset="8", length=str(stored.nbytes))
    found = weights(file)
    assert is_mapped(found)
    assert not found.flags.writeable
    assert found.tobytes() == stored.tobytes()


DTYPES = sorted(
    dtype.name
    for code in onnx.TensorProto.DataType.values()
    if (dtype := element_dtype(code)) is not None and element_type(code) != NoneType()
)
"""Every element type that ONNX and MLIR both have."""


def values_of(element: str) -> Array:
    """Some values of an element type, more than MLIR text holds inline."""
    return (np.arange(135).reshape(5, 27) % 4).astype(np.dtype(getattr(ml_dtypes, element, element)))


@pytest.mark.parametrize("element", DTYPES)
def test_each_type_is_written_to_a_side_file_and_read_again(tmp_path: Path, element: str) -> None:
    """Arrays are large enough for the side file, which a dtype other than numpy's own object once spoilt."""
    array = values_of(element)
    (tmp_path / "net.onnx.data").write_bytes(numpy_helper.from_array(array).raw_data)
    code = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
    module = load_onnx(described(tmp_path / "net.onnx", list(array.shape), code, location="net.onnx.data"))
    save(module, tmp_path / "net.mlir")
    (constant,) = (o for o in ops_of(read_mlir(tmp_path / "net.mlir")) if isinstance(o, ConstantOp))
    assert constant.value.array.dtype == array.dtype
    assert constant.value.array.tobytes() == array.tobytes()


@pytest.mark.parametrize("element", ["float32", "int16", "int64", "bfloat16", "float16", "int8"])
def test_a_machine_of_the_other_byte_order_reads_the_same_values(element: str) -> None:
    array = values_of(element)
    bits = array.view(f"u{array.itemsize}")
    as_that_machine_sees_it = bits.byteswap().view(array.dtype)
    assert in_machine_order(array, "little") is array
    assert in_machine_order(as_that_machine_sees_it, "big").tobytes() == array.tobytes()


@pytest.mark.parametrize("order", ["<", ">", "="])
def test_arrays_of_any_byte_order_are_weights_of_the_same_values(tmp_path: Path, order: Literal["<", ">", "="]) -> None:
    """Arrays that users bind to inputs come in the order that their file has."""
    values = floats(200)
    proto = model(node("Identity", "x"), {"x": [200]})
    module = load_onnx(proto, constants={"x": values.astype(values.dtype.newbyteorder(order))})
    save(module, tmp_path / "net.mlir")
    (constant,) = (o for o in ops_of(read_mlir(tmp_path / "net.mlir")) if isinstance(o, ConstantOp))
    assert np.array_equal(constant.value.array, values)


def test_packed_types_are_unpacked(tmp_path: Path) -> None:
    stored = np.arange(-8, 7).astype(ml_dtypes.int4)
    (tmp_path / "data").write_bytes(numpy_helper.from_array(stored).raw_data)
    assert np.array_equal(weights(described(tmp_path / "n.onnx", [15], TensorProto.INT4, location="data")), stored)


def test_folders_below_and_links_inside(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "data").write_bytes(floats(3).tobytes())
    (tmp_path / "link").symlink_to("sub/data")
    for location in ("sub/data", "link"):
        assert np.array_equal(weights(described(tmp_path / "n.onnx", [3], location=location)), floats(3))


REFUSED: dict[str, tuple[Mapping[str, str], str]] = {
    "parent": ({"location": "../secret"}, "outside the model's folder"),
    "there and back": ({"location": "sub/../../secret"}, "outside the model's folder"),
    "absolute": ({"location": "/etc/passwd"}, "outside the model's folder"),
    "link": ({"location": "link"}, "a link to outside the model's folder"),
    "link of a folder": ({"location": "out/secret"}, "a link to outside the model's folder"),
    "circle": ({"location": "circle"}, "circle"),
    "pipe": ({"location": "pipe"}, 'no file "pipe"'),
    "folder": ({"location": "sub"}, 'no file "sub"'),
    "missing": ({"location": "none"}, 'no file "none"'),
    "nothing": ({}, "no location"),
    "zero": ({"location": "da\0ta"}, "no location"),
    "long": ({"location": "x" * 5000}, "xxx"),
    "negative": ({"location": "data", "offset": "-4"}, 'the offset "-4"'),
    "text": ({"location": "data", "offset": "four"}, 'the offset "four"'),
    "huge": ({"location": "data", "offset": "9" * 30}, 'the offset "999'),
    "behind the end": ({"location": "data", "offset": "4"}, "a file of 12 bytes, of which it needs those up to 16"),
    "the model": ({"location": "net.onnx"}, "which is the model itself"),
    "wrong length": ({"location": "data", "length": "8"}, r"8 bytes for float32 of shape \[3\]"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    (folder / "sub").mkdir(parents=True)
    (tmp_path / "secret").write_bytes(bytes(12))
    (folder / "data").write_bytes(bytes(12))
    (folder / "link").symlink_to("../secret")
    (folder / "out").symlink_to("..")
    (folder / "circle").symlink_to("circle")
    os.mkfifo(folder / "pipe")
    entries, text = REFUSED[name]
    with pytest.raises(FileError, match=text) as caught:
        load_onnx(described(folder / "net.onnx", [3], TensorProto.FLOAT, **entries))
    assert 'needs the external data of "w"' in str(caught.value)


def test_refused_types_and_shapes(tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(bytes(12))
    with pytest.raises(FileError, match="elements of type string"):
        load_onnx(described(tmp_path / "net.onnx", [3], TensorProto.STRING, location="data"))
    with pytest.raises(FileError, match="a file of 12 bytes"):
        load_onnx(described(tmp_path / "net.onnx", [1 << 40, 1 << 40], location="data"))


PEAK = """
import re, sys
from qmlir.frontends.onnx import load_onnx
from qmlir.frontends.onnx.reader import in_machine_order
from qmlir.frontends.onnx.types import element_dtype, element_type
from qmlir.ir.source import read_mlir
module = load_onnx(sys.argv[1])
module.verify()
peak = re.search(r"VmHWM:\\s*(\\d+)", open("/proc/self/status").read())[1]
print(int(peak) // 1024, [o.name for o in module.walk()][3])
"""


@pytest.mark.slow
def test_a_model_of_more_than_two_gigabytes(tmp_path: Path) -> None:
    """2.2 GB of weights that take no room on the disk, and none in memory."""
    rows, columns = 550, 1_000_000
    proto = model(node("Gemm", "x w", transB=1), {"x": [1, columns]})
    tensor = proto.graph.initializer.add(
        name="w", data_type=TensorProto.FLOAT, dims=[rows, columns], data_location=TensorProto.EXTERNAL
    )
    tensor.external_data.add(key="location", value="weights")
    (tmp_path / "net.onnx").write_bytes(proto.SerializeToString())
    with (tmp_path / "weights").open("wb") as file:
        file.truncate(4 * rows * columns)
    assert (tmp_path / "weights").stat().st_size > 2 << 30
    command = [sys.executable, "-c", PEAK, str(tmp_path / "net.onnx")]
    peak, operation = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert operation == "nn.fully_connected"
    assert int(peak) < 400
