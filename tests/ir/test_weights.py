"""Constant data: held once, never written to, and read back bit for bit from every text form."""

import json
import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx import TensorProto, helper
from safetensors.numpy import load_file, save
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp, TensorType, i8
from xdsl.ir import Block, Region
from xdsl.parser import Parser

from qmlir.compiler import load
from qmlir.compiler import save as save_module
from qmlir.dialects.nn import ConstantOp
from qmlir.dialects.quant.types import UniformType
from qmlir.errors import FileError, OptionError, QmlirError
from qmlir.ir.context import make_context
from qmlir.ir.facts import NAME
from qmlir.ir.levels import stating
from qmlir.ir.names import NameAttr
from qmlir.ir.side_file import map_side_file, side_array, write_side_file
from qmlir.ir.source import parse_text
from qmlir.ir.storage import TextForm, write_module
from qmlir.ir.weights import (
    INLINE_LIMIT,
    Weights,
    WeightsAttr,
    WeightsMode,
    dtype_of,
    element_type_of,
    module_text,
)
from qmlir.numerics.affine import Affine, affine
from tests.conftest import crossed

Array = npt.NDArray[Any]

DTYPES = ["float16", "float32", "float64", "bool", *(f"{u}int{n}" for u in ("", "u") for n in (8, 16, 32, 64))]


def module_of(*arrays: Array) -> ModuleOp:
    """A function with a constant for each array."""
    block = Block()
    block.add_ops([*map(ConstantOp, arrays), func.ReturnOp()])
    return ModuleOp([func.FuncOp("main", ([], []), Region(block))])


def arrays_of(module: ModuleOp) -> list[Array]:
    return [op.value.array for op in module.walk() if isinstance(op, ConstantOp)]


def bits(dtype: str, *patterns: int) -> Array:
    """Floats with the given bit patterns."""
    return np.array(patterns, f"u{np.dtype(dtype).itemsize}").view(dtype)


def telling(dtype: str) -> Array:
    """Values of a type that a text form might lose: extremes, NaNs with payloads, infinities, −0.0, denormals."""
    if dtype == "bool":
        return np.array([True, False])
    if not dtype.startswith("float"):
        info = np.iinfo(dtype)
        return np.array([info.min, info.max, 0, 1], dtype)
    info = np.finfo(dtype)
    exponents = {"float16": 0x7C00, "float32": 0x7F80_0000, "float64": 0x7FF0_0000_0000_0000}[dtype]
    special = bits(
        dtype, exponents, exponents + 1, exponents | exponents >> 1, (exponents << 1) + 5 & (1 << info.bits) - 1
    )
    signed = [-0.0, info.max, info.min, info.tiny, info.smallest_subnormal, 0.1, -1 / 3, 1.0]
    return np.concatenate([np.array(signed, dtype), special, -special])


# Held once.


def test_what_somebody_may_write_to_is_copied() -> None:
    own = np.arange(6, dtype=np.float32)
    window = own[:4]
    window.flags.writeable = False
    whole, part = Weights(own), Weights(window)
    own[:] = 7
    assert whole.array.tolist() == [0, 1, 2, 3, 4, 5]
    assert part.array.tolist() == [0, 1, 2, 3]


def test_nobody_can_write_to_it() -> None:
    weights = Weights(np.zeros(3))
    with pytest.raises(ValueError, match="read-only"):
        weights.array[0] = 1


def test_what_nobody_may_write_to_is_held_as_it_is() -> None:
    array = np.frombuffer(bytes(8), np.int16)
    assert Weights(array).array is array


def test_any_layout_becomes_row_major_in_native_order() -> None:
    columns = np.arange(6, dtype=">i4").reshape(2, 3).T
    weights = Weights(columns)
    assert weights.array.flags.c_contiguous
    assert weights.array.dtype == np.dtype("=i4")
    assert weights.array.tolist() == [[0, 3], [1, 4], [2, 5]]
    assert Weights(np.array(5)).array.shape == ()


def test_clones_share_twenty_five_million_elements() -> None:
    array = np.zeros(25_000_000, np.float32)  # the system's pages of zeros: nothing is touched until someone reads
    array.flags.writeable = False
    module = module_of(array)
    (op,) = (op for op in module.walk() if isinstance(op, ConstantOp))
    (clone,) = (op for op in module.clone().walk() if isinstance(op, ConstantOp))
    assert op.value.array is array
    assert clone.value.array is array
    assert clone.value == op.value
    assert hash(clone.value) == hash(op.value)
    assert str(module).count("elided") == 1


def test_equality_is_of_type_shape_and_bits() -> None:
    def same(a: Array, b: Array) -> bool:
        equal = WeightsAttr(a) == WeightsAttr(b)
        assert not equal or hash(WeightsAttr(a)) == hash(WeightsAttr(b))
        return equal

    ramp = np.arange(100, dtype=np.int32)
    assert same(ramp, ramp.copy())
    assert same(np.array([np.nan, 1.0]), np.array([np.nan, 1.0]))
    assert same(np.zeros((0, 3)), np.zeros((0, 3)))
    assert not same(np.array([0.0]), np.array([-0.0]))
    assert not same(ramp, ramp.view(np.uint32))
    assert not same(ramp, ramp.reshape(10, 10))
    assert not same(ramp, ramp[::-1])
    assert WeightsAttr(ramp) != object()


def test_the_hash_reads_a_few_bytes_only() -> None:
    """So arrays that differ later have one hash, and equality must look further."""
    a, b = np.zeros(1000, np.int8), np.zeros(1000, np.int8)
    b[-1] = 1
    assert hash(Weights(a)) == hash(Weights(b))
    assert Weights(a) != Weights(b)


@pytest.mark.parametrize("dtype", DTYPES)
def test_element_types(dtype: str) -> None:
    assert dtype_of(element_type_of(dtype)) == np.dtype(dtype)


# Text.


def written_inline(module: ModuleOp, folder: Path) -> ModuleOp:
    return Parser(make_context(), module_text(module, WeightsMode.INLINE)).parse_module()


def written_to_files(module: ModuleOp, folder: Path) -> ModuleOp:
    write_module(module, folder / "net.mlir")
    return load(folder / "net.mlir")


def written_as_resources(module: ModuleOp, folder: Path) -> ModuleOp:
    save_module(module, folder / "net.mlir", weights="resource")
    assert not (folder / "net.safetensors").exists()
    return load(folder / "net.mlir")


def written_for_upstream(module: ModuleOp, folder: Path) -> ModuleOp:
    save_module(module, folder / "net.mlir", weights="resource", generic=True)
    return load(folder / "net.mlir")


@pytest.mark.parametrize("form", [written_inline, written_to_files, written_as_resources, written_for_upstream])
@pytest.mark.parametrize("large", [False, True], ids=["small", "large"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_bit_comes_back(
    dtype: str, large: bool, form: Callable[[ModuleOp, Path], ModuleOp], tmp_path: Path
) -> None:
    array = telling(dtype)
    array = np.resize(array, (13, INLINE_LIMIT)) if large else array.reshape(2, -1)
    (back,) = arrays_of(form(module_of(array), tmp_path))
    assert back.dtype == array.dtype
    assert back.shape == array.shape
    assert back.tobytes() == array.tobytes()
    assert not back.flags.writeable


def test_the_limit_of_what_prints_inline() -> None:
    most, more = np.zeros(INLINE_LIMIT, np.int8), np.zeros(INLINE_LIMIT + 1, np.int8)
    assert "elided" not in module_text(module_of(most), WeightsMode.ELIDED)
    assert module_text(module_of(more), WeightsMode.ELIDED).count("elided") == 1


def test_an_array_is_stored_once_and_names_do_not_clash(tmp_path: Path) -> None:
    shared = WeightsAttr(np.arange(100, dtype=np.int8))
    block = Block()
    other = np.arange(100, dtype=np.int16)
    block.add_ops([ConstantOp(shared), ConstantOp(shared), ConstantOp(other), func.ReturnOp()])
    module = ModuleOp([func.FuncOp("main", ([], []), Region(block))])
    write_module(module, tmp_path / "net.mlir")
    assert len(load_file(tmp_path / "net.safetensors")) == 2
    assert load(tmp_path / "net.mlir").is_structurally_equivalent(module)
    save_module(module, tmp_path / "net.mlir", weights="resource")
    assert (tmp_path / "net.mlir").read_text().count('"0x') == 2
    assert load(tmp_path / "net.mlir").is_structurally_equivalent(module)


def test_a_way_of_saving_that_there_is_not(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="weights: must be one of file, inline, resource, elide, got files"):
        save_module(module_of(np.zeros(3)), tmp_path / "net.mlir", weights="files")
    assert not list(tmp_path.iterdir())


def test_small_weights_need_no_side_file(tmp_path: Path) -> None:
    write_module(module_of(np.zeros(3)), tmp_path / "net.mlir")
    assert [f.name for f in tmp_path.iterdir()] == ["net.mlir"]


# Side files.


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_mapped_file_holds_what_safetensors_reads(dtype: str, tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    path.write_bytes(save({"a": telling(dtype), "b": np.zeros((2, 3), np.int8)}, {"made": "by a test"}))
    mapped, read = map_side_file(path).arrays, load_file(path)
    assert set(mapped) == {"a", "b"}
    for key, array in mapped.items():
        assert array.dtype == read[key].dtype
        assert array.tobytes() == read[key].tobytes()
        assert not array.flags.writeable


@pytest.mark.parametrize("dtype", DTYPES)
def test_safetensors_reads_what_is_written(dtype: str, tmp_path: Path) -> None:
    arrays = {"a": np.arange(3, dtype=np.int8), 'ä"\\': telling(dtype), "c": np.ones((2, 0), np.float64)}
    write_side_file(arrays, tmp_path / "w.safetensors")
    for read in (load_file(tmp_path / "w.safetensors"), map_side_file(tmp_path / "w.safetensors").arrays):
        assert {k: (a.dtype, a.shape, a.tobytes()) for k, a in read.items()} == {
            k: (a.dtype, a.shape, a.tobytes()) for k, a in arrays.items()
        }


def test_arrays_lie_at_multiples_of_their_elements(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    write_side_file({f"a{i}": np.zeros(3, kind) for i, kind in enumerate(("i1", "f8", "u2", "?", "f4"))}, path)
    assert int.from_bytes(path.read_bytes()[:8], "little") % 8 == 0
    assert all(a.flags.aligned for a in map_side_file(path).arrays.values())


@crossed({"count": [65, 100, (1 << 20) + 13], "bits": range(2, 8)})
def test_values_of_few_bits_take_so_many_in_the_file(count: int, bits: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(bits)
    values = rng.integers(-(1 << bits - 1), 1 << bits - 1, count, np.int8)
    values[:2] = -(1 << bits - 1), (1 << bits - 1) - 1
    module = module_of(values)
    write_module(module, tmp_path / "net.mlir")
    (stream,) = load_file(tmp_path / "net.safetensors").values()
    assert stream.nbytes == -(-count * bits // 8)
    last = count - 1  # read bit by bit, as the module states it
    value = sum((int(stream[i // 8]) >> i % 8 & 1) << i - last * bits for i in range(last * bits, count * bits))
    assert value - (1 << bits) * (value >> bits - 1) == values[-1]
    assert load(tmp_path / "net.mlir").is_structurally_equivalent(module)


@pytest.mark.parametrize("kind", ["int2", "uint2", "int4", "uint4"])
def test_types_of_few_bits_take_so_many_in_the_file(kind: str, tmp_path: Path) -> None:
    dtype, bits = np.dtype(getattr(ml_dtypes, kind)), int(kind[-1])
    array = np.random.default_rng(0).integers(0, 1 << bits, (7, 30)).astype(np.uint8).view(dtype)
    array = array.astype(np.int8).astype(dtype)  # as numbers become them
    write_side_file({"w": array}, tmp_path / "w.safetensors")
    assert map_side_file(tmp_path / "w.safetensors").arrays["w"].shape == (-(-210 * bits // 8),)
    found = side_array(tmp_path, "w.safetensors", "w", dtype, (7, 30))
    assert found.dtype == dtype
    assert found.tobytes() == array.tobytes()


def test_a_packed_array_of_another_length(tmp_path: Path) -> None:
    path = tmp_path / "net.safetensors"
    write_module(module_of(np.ones(100, np.int8)), tmp_path / "net.mlir")
    path.write_bytes(path.read_bytes().replace(b'bits of weights":"2"', b'bits of weights":"3"'))
    with pytest.raises(FileError, match=r'must hold the tensor "weights" as int8 of shape \[100\], got uint8'):
        load(tmp_path / "net.mlir")
    path.write_bytes(path.read_bytes().replace(b'bits of weights":"3"', b'bits of weights":"9"'))
    with pytest.raises(FileError, match="must be a safetensors file"):
        load(tmp_path / "net.mlir")


def stated(levels: Affine, stored: Array) -> ModuleOp:
    """A module with a constant of floats that are integers times the scales of blocks."""
    offsets = levels.offsets if len(levels.offsets) else None
    module = module_of(affine(stored, levels.scales, offsets, levels.size))
    (constant, _) = next(iter(module.body.block.ops)).regions[0].block.ops
    constant.attributes.update(stating(levels))
    return module


@pytest.mark.parametrize(("bits", "least"), [(4, 0), (4, -8), (7, 0), (8, 0), (8, -128)])
@pytest.mark.parametrize(("rows", "offsets"), [(1, 0), (6, 0), (1, 1), (6, 1), (6, 6)])
@pytest.mark.parametrize("kind", [np.float32, ml_dtypes.bfloat16, ml_dtypes.float8_e8m0fnu])
def test_floats_of_affine_levels_are_stored_as_their_integers(
    bits: int, least: int, rows: int, offsets: int, kind: Any, tmp_path: Path
) -> None:
    rng = np.random.default_rng(bits)
    stored = rng.integers(least, least + (1 << bits), (6, 48), np.int16)
    scales, added = rng.uniform(0.5, 2, (rows, 3)).astype(kind), rng.normal(size=(offsets, 3)).astype(np.float32)
    module = stated(Affine(bits, least, 16, scales, added), stored)
    write_module(module, tmp_path / "net.mlir")
    sizes = {a.nbytes for a in load_file(tmp_path / "net.safetensors").values()}
    assert sizes == {6 * 48 * bits // 8, *(a.nbytes for a in (scales, added) if len(a))}
    assert load(tmp_path / "net.mlir").is_structurally_equivalent(module)


def test_floats_that_are_not_what_their_levels_state_are_stored_as_floats(tmp_path: Path) -> None:
    module = stated(Affine(4, 0, 48, np.ones((6, 1), np.float32), np.zeros((0, 1), np.float32)), np.ones((6, 48)))
    (constant,) = (op for op in module.walk() if isinstance(op, ConstantOp))
    floats = np.full((6, 48), np.float32(0.3))
    constant.properties["value"] = WeightsAttr(floats)
    write_module(module, tmp_path / "net.mlir")
    assert [a.nbytes for a in load_file(tmp_path / "net.safetensors").values()] == [floats.nbytes]
    assert load(tmp_path / "net.mlir").is_structurally_equivalent(module)


@pytest.mark.parametrize(("before", "after", "message"), [
    (b"[4, 0, 16, ", b"[9, 0, 16, ", "must be a safetensors file"),
    (b"[4, 0, 16, ", b"[4, 1, 16, ", "must be a safetensors file"),
    (b"[4, 0, 16, ", b"[4, 0,  0, ", "must be a safetensors file"),
    (b"[4, 0, 16, ", b"[5, 0, 16, ", r'must hold the tensor "weights" as float32 of shape \[6, 48\], got none'),
    (b"[4, 0, 16, ", b"[4, 0, 24, ", r'must hold the tensor "weights" as float32 of shape \[6, 48\], got none'),
    (b"offsets\\", b"offsetz\\", r'must hold the tensor "weights" as float32 of shape \[6, 48\], got none'),
])  # fmt: skip
def test_damaged_statements_about_integers(before: bytes, after: bytes, message: str, tmp_path: Path) -> None:
    levels = Affine(4, 0, 16, np.ones((6, 3), np.float32), np.full((6, 3), np.float32(2)))
    write_module(stated(levels, np.arange(288).reshape(6, 48) % 16), tmp_path / "net.mlir")
    path = tmp_path / "net.safetensors"
    data = path.read_bytes()
    assert before in data
    path.write_bytes(data.replace(before, after))
    with pytest.raises(FileError, match=message):
        load(tmp_path / "net.mlir")


def saved(folder: Path) -> Path:
    """A module with a side file; the path of the side file."""
    write_module(module_of(np.arange(100, dtype=np.float32)), folder / "net.mlir")
    return folder / "net.safetensors"


def header_of(entries: object, data: bytes = bytes(400)) -> bytes:
    text = json.dumps(entries).encode()
    return len(text).to_bytes(8, "little") + text + data


def tensor(dtype: str = "F32", shape: object = (100,), offsets: object = (0, 400)) -> dict[str, object]:
    """A header's entry, right unless told otherwise."""
    return {"weights": {"dtype": dtype, "shape": shape, "data_offsets": offsets}}


def test_a_rewritten_side_file_is_read_again(tmp_path: Path) -> None:
    saved(tmp_path).write_bytes(header_of(tensor()))
    assert not arrays_of(load(tmp_path / "net.mlir"))[0].any()


def test_a_missing_side_file(tmp_path: Path) -> None:
    saved(tmp_path).unlink()
    with pytest.raises(FileError, match=r"net.safetensors: needs to be there.*; copy it beside the .mlir file"):
        load(tmp_path / "net.mlir")


def test_a_folder_instead_of_a_side_file(tmp_path: Path) -> None:
    side = saved(tmp_path)
    side.unlink()
    side.mkdir()
    with pytest.raises(FileError, match="must be a readable file"):
        load(tmp_path / "net.mlir")


def referring(folder: Path, location: str) -> Path:
    """A module in the folder `inner` that names another side file; the path of the side file beside the folder."""
    inner = folder / "inner"
    inner.mkdir()
    side = saved(inner)
    text = (inner / "net.mlir").read_text()
    (inner / "net.mlir").write_text(text.replace("net.safetensors#", f"{location}#"))
    return side.rename(folder / "net.safetensors")


@pytest.mark.parametrize("location", ["../net.safetensors", "../inner/../net.safetensors", "a/../../net.safetensors"])
def test_a_side_file_must_not_lie_elsewhere(location: str, tmp_path: Path) -> None:
    referring(tmp_path, location)
    with pytest.raises(FileError, match=r"must be a file in the module's folder, got the location .* which is outside"):
        load(tmp_path / "inner/net.mlir")


def test_a_side_file_must_not_be_named_by_its_whole_path(tmp_path: Path) -> None:
    referring(tmp_path, str(tmp_path / "net.safetensors"))
    with pytest.raises(FileError, match=r"must be a file in the module's folder, got the location .* which is outside"):
        load(tmp_path / "inner/net.mlir")


@pytest.mark.parametrize("target", ["../net.safetensors", "/dev/zero", "loop.safetensors"])
def test_a_side_file_must_not_be_a_link_to_elsewhere(target: str, tmp_path: Path) -> None:
    referring(tmp_path, "loop.safetensors")
    (tmp_path / "inner/loop.safetensors").symlink_to(target)
    with pytest.raises(FileError, match="must be a file in the module's folder"):
        load(tmp_path / "inner/net.mlir")


@pytest.mark.skipif(sys.platform == "win32", reason="pipes of POSIX")
def test_a_side_file_must_not_be_a_pipe(tmp_path: Path) -> None:
    referring(tmp_path, "pipe.safetensors")
    os.mkfifo(tmp_path / "inner/pipe.safetensors")
    with pytest.raises(FileError, match="must be a file in the module's folder"):
        load(tmp_path / "inner/net.mlir")


def test_a_side_file_may_be_a_link_within_the_folder(tmp_path: Path) -> None:
    side = saved(tmp_path)
    (tmp_path / "weights").mkdir()
    side.rename(tmp_path / "weights/net.bin")
    side.symlink_to("weights/net.bin")
    assert arrays_of(load(tmp_path / "net.mlir"))[0].any()


def test_threads_that_read_two_side_files(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in "ab"]
    for path in paths:
        path.mkdir()
        saved(path)
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda number: load(paths[number % 2] / "net.mlir"), range(60)))
    assert len(found) == 60


@pytest.mark.parametrize("size", [0, 7, 8, 20, 200, -1])
def test_a_truncated_side_file(tmp_path: Path, size: int) -> None:
    side = saved(tmp_path)
    side.write_bytes(side.read_bytes()[:size])
    with pytest.raises(FileError, match=r"must be a safetensors file, got something else or a part of one; write"):
        load(tmp_path / "net.mlir")


NO_SAFETENSORS = {
    "text": b"this is not a safetensors file, whatever its name says",
    "no JSON": (6).to_bytes(8, "little") + b"{weigh" + bytes(400),
    "no UTF-8": (4).to_bytes(8, "little") + b'"\xff\xff"' + bytes(400),
    "a length beyond the file": (1 << 62).to_bytes(8, "little") + bytes(400),
    "a header of hundreds of megabytes": (1 << 28).to_bytes(8, "little") + b"{}" + bytes(400),
    "a list": header_of([1]),
    "an entry that is a number": header_of({"weights": 1}),
    "no offsets": header_of({"weights": {"dtype": "F32", "shape": [100]}}),
    "offsets beyond the file": header_of(tensor(offsets=[400, 800])),
    "offsets in disorder": header_of(tensor(offsets=[400, 0])),
    "negative offsets": header_of(tensor(offsets=[-400, 0])),
    "offsets of another size": header_of(tensor(offsets=[0, 396])),
    "one offset": header_of(tensor(offsets=[0])),
    "a shape that is text": header_of(tensor(shape="100 elements")),
    "a type that is a number": header_of({"weights": {"dtype": [], "shape": [100], "data_offsets": [0, 400]}}),
}


@pytest.mark.parametrize("case", NO_SAFETENSORS)
def test_what_is_no_safetensors_file(tmp_path: Path, case: str) -> None:
    saved(tmp_path).write_bytes(NO_SAFETENSORS[case])
    with pytest.raises(FileError, match="must be a safetensors file"):
        load(tmp_path / "net.mlir")


LIES = {
    "another name": (header_of({"bias": tensor()["weights"]}), "none of that name"),
    "another type": (header_of(tensor(dtype="I32")), r"int32 of shape \[100\]"),
    "another shape": (header_of(tensor(shape=[10, 10])), r"float32 of shape \[10, 10\]"),
    "a type numpy lacks": (header_of(tensor(dtype="BF16", offsets=[0, 200])), "none of that name"),
}


@pytest.mark.parametrize("case", LIES)
def test_a_side_file_of_another_module(tmp_path: Path, case: str) -> None:
    data, got = LIES[case]
    saved(tmp_path).write_bytes(data)
    need = r'net.safetensors: must hold the tensor "weights" as float32 of shape \[100\]'
    with pytest.raises(FileError, match=f"{need}, got {got}; write the module and its side file again"):
        load(tmp_path / "net.mlir")


@pytest.mark.parametrize("name", ["a#b", "#", "a.safetensors#b", "a%23b", "a b", 'a"b', "a\\b", "ü", "a\nb", "a?b"])
@pytest.mark.parametrize("tensor", ["w", "w#1", "x.safetensors#w"])
def test_names_of_side_files(name: str, tensor: str, tmp_path: Path) -> None:
    """Whatever the name of a module and of its tensors, the module is read back with its side file."""
    array = np.arange(100, dtype=np.float32)
    module = module_of(array)
    (constant,) = (op for op in module.walk() if isinstance(op, ConstantOp))
    NAME.put(constant, NameAttr.of(tensors=[tensor]))
    text, side = save_module(module, tmp_path / f"{name}.mlir")
    assert side.name == f"{name}.safetensors"
    np.testing.assert_array_equal(arrays_of(load(text))[0], array)


def test_names_that_end_in_numbers_stay_apart(tmp_path: Path) -> None:
    """The third %tmp was printed as %tmp_2, as a tensor called tmp_2_7 was."""
    names = ["tmp_2_7", "tmp", "tmp_1", "tmp_5", "tmp_1_1_1"]
    nodes = [helper.make_node("Abs", [x], [y]) for x, y in pairwise(["x", *names])]
    value = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [4]) for n in ("x", names[-1])]
    graph = helper.make_graph([*nodes], "names", value[:1], value[1:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "n.onnx")
    save_module(load(tmp_path / "n.onnx"), tmp_path / "n.mlir")
    again = load(tmp_path / "n.mlir")
    assert sum(op.name == "nn.abs" for op in again.walk()) == len(names)


@pytest.mark.parametrize(("channels", "aliases"), [(64, 0), (65, 1)])
def test_long_types_are_printed_once(channels: int, aliases: int) -> None:
    scales = ",".join(str(0.5 + i) for i in range(channels))
    type = f"tensor<{channels}x1x!quant.uniform<i8:f32:0, {{{scales}}}>>"
    source = f"""
func.func @first(%x: {type}) -> {type} {{
  func.return %x : {type}
}}
func.func @second(%x: {type}) -> {type} {{
  func.return %x : {type}
}}"""
    module = parse_text(make_context(), source, "text")
    for generic in (False, True):
        text = module_text(module, WeightsMode.INLINE, generic=generic)
        assert text.count("!scales0 = !quant.uniform<") == aliases
        assert text.count("6.450000e+01") == aliases
        assert parse_text(make_context(), text, "text").is_structurally_equivalent(module)
    function = module_text(next(iter(module.body.block.ops)), WeightsMode.INLINE)
    assert "!scales" not in function  # nothing stands before it


def typed(*scales: float, zero_point: int = 0) -> ModuleOp:
    type = UniformType.per_axis(i8, 0, scales, [zero_point] * len(scales))
    function = func.FuncOp("main", ([TensorType(type, [len(scales), 1])], []), Region(Block(arg_types=[])))
    function.body.block.insert_arg(function.function_type.inputs.data[0], 0)
    function.body.block.add_op(func.ReturnOp())
    return ModuleOp([function])


@pytest.mark.parametrize(("third", "zero_point", "held"), [
    (0.125, 0, ["F16"]), (0.1, 0, ["F64"]), (float(np.float32(0.1)), 0, ["F32"]), (0.125, 3, []),
    (2.0**17, 0, ["F32"]),
])  # fmt: skip
def test_many_scales_of_a_type_lie_in_the_side_file(
    third: float, zero_point: int, held: list[str], tmp_path: Path
) -> None:
    """In the fewest bits in which they are exact; beside zero points, and for mlir-opt, they stay in the text."""
    module = typed(0.5, 2.0, third, *(1.0 + i for i in range(97)), zero_point=zero_point)
    files = write_module(module, tmp_path / "net.mlir")
    assert load(tmp_path / "net.mlir").is_structurally_equivalent(module)
    kinds = {"F16": np.float16, "F32": np.float32, "F64": np.float64}
    stored = list(load_file(files[1]).values()) if len(files) > 1 else []
    assert [a.dtype for a in stored] == [kinds[kind] for kind in held]
    for form in (TextForm(generic=True), TextForm(upstream=True)):
        assert len(write_module(module, tmp_path / "other.mlir", form)) == 1
        assert load(tmp_path / "other.mlir").is_structurally_equivalent(module)


@pytest.mark.parametrize(("weights", "message"), [
    ("tensor<2xf32>, [1.0, -1.0]", "illegal scale"),
    ("tensor<2x1xf32>, [1.0, 1.0]", "a dimension of floats"),
    ("tensor<2xi32>, [1, 1]", "a dimension of floats"),
    ("tensor<0xf32>, []", "illegal number of scales"),
])  # fmt: skip
def test_arrays_that_are_no_scales(weights: str, message: str) -> None:
    text = f"func.func private @f(tensor<2x1x!quant.uniform<i8:f32:0, #qmlir.weights<{weights}>>>)"
    with pytest.raises(QmlirError, match=message):
        parse_text(make_context(), text, "text")


def test_an_array_that_is_made_again() -> None:
    """It is made anew when somebody asks for it; until then its shape, type and hash are known without it."""
    made: list[int] = []

    def again() -> Array:
        made.append(len(made))
        return np.arange(12, dtype=np.float32).reshape(3, 4)

    weights, same = Weights(again(), again), Weights(again())
    weights.release()
    attribute = WeightsAttr(weights)
    assert (attribute.shape, attribute.dtype, str(attribute.type)) == ((3, 4), np.float32, "tensor<3x4xf32>")
    assert hash(weights) == hash(same)
    assert made == [0, 1]
    assert weights == same
    assert attribute.array is weights.array
    assert made == [0, 1, 2]
    same.release()
    assert same.array[2, 3] == 11
    assert made == [0, 1, 2]
