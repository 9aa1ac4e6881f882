"""arith and math through the JIT, bit for bit what numpy computes, on scalars and on vectors."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from kernels import elementwise, empty, lowered, run_kernel, vectorwise, with_main

from tests.conftest import crossed

Array = npt.NDArray[Any]
N = 37

RNG = np.random.default_rng(1)


def integers(dtype: npt.DTypeLike, n: int = N) -> Array:
    """Integers of the whole range, the extremes first."""
    info = np.iinfo(dtype)
    values = RNG.integers(info.min, info.max, n, dtype, endpoint=True)
    values[:4] = info.min, info.max, 0, 1
    return values


def floats(dtype: npt.DTypeLike, n: int = N) -> Array:
    """Floats of all magnitudes, the difficult ones first."""
    values = RNG.standard_normal(n) * 10.0 ** RNG.integers(-3, 4, n)
    values[:8] = 0.0, -0.0, 0.5, 1.5, 2.5, -2.5, np.inf, -np.inf
    return values.astype(dtype)


INTEGER_BINARY = {
    "addi": np.add,
    "subi": np.subtract,
    "muli": np.multiply,
    "andi": np.bitwise_and,
    "ori": np.bitwise_or,
    "xori": np.bitwise_xor,
    "maxsi": np.maximum,
    "minsi": np.minimum,
}
TYPES = {"i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64}


@crossed({"element": ["i8", "i32", "i64"], "shape": [elementwise, vectorwise]})
def test_integer_binary(shape: Any, element: str) -> None:
    """All in one kernel: the results are added up, so one wrong bit shows."""
    a, b = integers(TYPES[element]), integers(TYPES[element])[::-1].copy()
    type = element if shape is elementwise else f"vector<{N}x{element}>"
    for name, meaning in INTEGER_BINARY.items():
        kernel = shape(f"%r = arith.{name} %0, %1 : {type}", [(element, N)] * 2, (element, N))
        (y,) = run_kernel(kernel, a, b, out=[a])
        assert (y == meaning(a, b)).all(), name


@pytest.mark.parametrize(
    ("name", "meaning"),
    [
        ("maxui", np.maximum),
        ("minui", np.minimum),
        ("divui", np.floor_divide),
        ("remui", np.remainder),
        ("ceildivui", lambda a, b: -(-a.astype(int) // b)),
    ],
)
def test_unsigned(name: str, meaning: Any) -> None:
    a, b = integers(np.uint8), np.maximum(integers(np.uint8)[::-1], 1)
    (y,) = run_kernel(elementwise(f"%r = arith.{name} %0, %1 : i8", [("i8", N)] * 2, ("i8", N)), a, b, out=[a])
    assert (y == meaning(a, b).astype(np.uint8)).all()


@crossed(
    {
        "shape": [elementwise, vectorwise],
        "name, meaning": [
            ("divsi", lambda a, b: np.trunc(a / b)),
            ("remsi", np.fmod),
            ("floordivsi", np.floor_divide),
            ("ceildivsi", lambda a, b: -(-a // b)),
        ],
    }
)
def test_signed_division(name: str, meaning: Any, shape: Any) -> None:
    a = RNG.integers(-50, 50, 200).astype(np.int32)
    b = np.where(RNG.integers(0, 2, 200), 1, -1).astype(np.int32) * RNG.integers(1, 9, 200).astype(np.int32)
    type = "i32" if shape is elementwise else "vector<200xi32>"
    (y,) = run_kernel(shape(f"%r = arith.{name} %0, %1 : {type}", [("i32", 200)] * 2, ("i32", 200)), a, b, out=[a])
    assert (y == meaning(a, b)).all()


@pytest.mark.parametrize(("name", "shifted"), [("shli", np.left_shift), ("shrsi", np.right_shift)])
def test_shifts(name: str, shifted: Any) -> None:
    a, by = integers(np.int32), RNG.integers(0, 32, N).astype(np.int32)
    (y,) = run_kernel(elementwise(f"%r = arith.{name} %0, %1 : i32", [("i32", N)] * 2, ("i32", N)), a, by, out=[a])
    assert (y == shifted(a, by)).all()


def test_logical_shift() -> None:
    a, by = integers(np.uint32), RNG.integers(0, 32, N).astype(np.uint32)
    (y,) = run_kernel(elementwise("%r = arith.shrui %0, %1 : i32", [("i32", N)] * 2, ("i32", N)), a, by, out=[a])
    assert (y == a >> by).all()


@pytest.mark.parametrize("shape", [elementwise, vectorwise])
@pytest.mark.parametrize(("element", "dtype"), [("f32", np.float32), ("f64", np.float64)])
def test_float_binary(shape: Any, element: str, dtype: Any) -> None:
    a, b = floats(dtype), floats(dtype)[::-1].copy()
    type = element if shape is elementwise else f"vector<{N}x{element}>"
    for name, meaning in {
        "addf": np.add,
        "subf": np.subtract,
        "mulf": np.multiply,
        "divf": np.divide,
        "maximumf": np.maximum,
        "minimumf": np.minimum,
        "maxnumf": np.fmax,
        "minnumf": np.fmin,
    }.items():
        kernel = shape(f"%r = arith.{name} %0, %1 : {type}", [(element, N)] * 2, (element, N))
        (y,) = run_kernel(kernel, a, b, out=[a])
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(y, meaning(a, b), err_msg=name)


def test_minima_and_maxima_of_nan_and_zeros() -> None:
    a = np.array([np.nan, 1, -0.0, 0.0], np.float32)
    b = np.array([1, np.nan, 0.0, -0.0], np.float32)
    for name, expected in {
        "maximumf": [np.nan, np.nan, 0.0, 0.0],
        "minimumf": [np.nan, np.nan, -0.0, -0.0],
        "maxnumf": [1, 1, 0.0, 0.0],
        "minnumf": [1, 1, -0.0, -0.0],
    }.items():
        (y,) = run_kernel(elementwise(f"%r = arith.{name} %0, %1 : f32", [("f32", 4)] * 2, ("f32", 4)), a, b, out=[a])
        np.testing.assert_array_equal(y, np.array(expected, np.float32), err_msg=name)
        np.testing.assert_array_equal(np.signbit(y[2:]), np.signbit(expected[2:]), err_msg=name)


@crossed({"bound": [0.0, -0.0, 1.5, -3.25, 3.4e38], "name": ["maxnumf", "minnumf"], "shape": [elementwise, vectorwise]})
def test_bound_by_a_constant(shape: Any, name: str, bound: float) -> None:
    """As of two variables, to the sign of zero; but without the intrinsic, which is younger than LLVM 19."""
    special = [np.nan, -np.nan, 0.0, -0.0, np.inf, -np.inf, bound, -bound]
    a = np.concatenate([special, floats(np.float32)])[:N].astype(np.float32)
    b = np.full(N, bound, np.float32)
    type = "f32" if shape is elementwise else f"vector<{N}xf32>"
    constant = f"{bound} : f32" if shape is elementwise else f"dense<{bound}> : {type}"
    one = shape(f"%c = arith.constant {constant}\n%r = arith.{name} %0, %c : {type}", [("f32", N)], ("f32", N))
    two = shape(f"%r = arith.{name} %0, %1 : {type}", [("f32", N)] * 2, ("f32", N))
    assert "mumnum" not in str(lowered(with_main(one, 1)))
    assert "mumnum" in str(lowered(with_main(two, 2)))
    (got,), (expected,) = run_kernel(one, a, out=[a]), run_kernel(two, a, b, out=[a])
    assert not np.isnan(expected).any()
    np.testing.assert_array_equal(got.view(np.uint32), expected.view(np.uint32))


@pytest.mark.parametrize("shape", [elementwise, vectorwise])
@pytest.mark.parametrize(
    ("operation", "meaning"),
    [
        ("math.roundeven %0", np.rint),
        ("math.floor %0", np.floor),
        ("math.ceil %0", np.ceil),
        ("math.trunc %0", np.trunc),
        ("math.absf %0", np.abs),
        ("arith.negf %0", np.negative),
        ("math.copysign %0, %1", np.copysign),
    ],
)
def test_float_functions(shape: Any, operation: str, meaning: Any) -> None:
    a, b = floats(np.float32), floats(np.float32)[::-1].copy()
    type = "f32" if shape is elementwise else f"vector<{N}xf32>"
    kernel = shape(f"%r = {operation} : {type}", [("f32", N)] * 2, ("f32", N))
    (y,) = run_kernel(kernel, a, b, out=[a])
    expected = meaning(a, b) if "%1" in operation else meaning(a)
    np.testing.assert_array_equal(y, expected)
    np.testing.assert_array_equal(np.signbit(y), np.signbit(expected))


def test_square_root_is_correctly_rounded() -> None:
    a = np.abs(floats(np.float64, 1000))
    (y,) = run_kernel(elementwise("%r = math.sqrt %0 : f64", [("f64", 1000)], ("f64", 1000)), a, out=[a])
    assert (y == np.sqrt(a)).all()


def test_absolute_integer() -> None:
    a = integers(np.int32)
    (y,) = run_kernel(elementwise("%r = math.absi %0 : i32", [("i32", N)], ("i32", N)), a, out=[a])
    assert (y == np.abs(a)).all()


@pytest.mark.parametrize(
    ("operation", "source", "result"),
    [
        ("extsi", "i8", "i32"),
        ("extui", "i8", "i32"),
        ("trunci", "i32", "i8"),
        ("sitofp", "i32", "f32"),
        ("uitofp", "i32", "f32"),
        ("sitofp", "i64", "f64"),
        ("fptosi", "f64", "i32"),
        ("fptoui", "f32", "i8"),
        ("extf", "f32", "f64"),
        ("truncf", "f64", "f32"),
        ("bitcast", "f32", "i32"),
    ],
)
@pytest.mark.parametrize("shape", [elementwise, vectorwise])
def test_conversions(operation: str, source: str, result: str, shape: Any) -> None:
    unsigned = operation in ("extui", "uitofp")
    dtypes = {**TYPES, "f32": np.float32, "f64": np.float64}
    if source[0] == "i":
        a = integers(np.dtype(f"uint{source[1:]}") if unsigned else dtypes[source])
    elif operation.startswith("fpto"):
        a = (RNG.random(N) * 200).astype(dtypes[source])
        a = -a if operation == "fptosi" else a
    else:
        a = floats(dtypes[source])
    expected = a.view(np.int32) if operation == "bitcast" else a.astype(dtypes[result])
    types = f"{source} to {result}" if shape is elementwise else f"vector<{N}x{source}> to vector<{N}x{result}>"
    (y,) = run_kernel(shape(f"%r = arith.{operation} %0 : {types}", [(source, N)], (result, N)), a, out=[expected])
    assert (y == expected).all()


@pytest.mark.parametrize("predicate", ["eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge"])
def test_integer_comparisons(predicate: str) -> None:
    a, b = integers(np.int8), integers(np.int8)[::-1].copy()
    b[::3] = a[::3]
    body = f"%c = arith.cmpi {predicate}, %0, %1 : i8\n%r = arith.extui %c : i1 to i8"
    (y,) = run_kernel(elementwise(body, [("i8", N)] * 2, ("i8", N)), a, b, out=[a])
    x, z = (a.view(np.uint8), b.view(np.uint8)) if predicate[0] == "u" else (a, b)
    meaning = {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal}
    meaning |= {"gt": np.greater, "ge": np.greater_equal}
    assert (y == meaning[predicate[-2:]](x, z)).all()


@pytest.mark.parametrize("predicate", ["oeq", "ogt", "ole", "one", "ord", "ueq", "ult", "une", "uno"])
def test_float_comparisons(predicate: str) -> None:
    a = np.array([0.0, 1.0, np.nan, np.nan, 2.0, -0.0], np.float32)
    b = np.array([0.0, 2.0, 1.0, np.nan, 1.0, 0.0], np.float32)
    body = f"%c = arith.cmpf {predicate}, %0, %1 : f32\n%r = arith.extui %c : i1 to i8"
    (y,) = run_kernel(elementwise(body, [("f32", 6)] * 2, ("i8", 6)), a, b, out=[empty(6, np.int8)])
    unordered = np.isnan(a) | np.isnan(b)
    if predicate in ("ord", "uno"):
        expected = unordered == (predicate == "uno")
    else:
        compare = {"eq": np.equal, "ne": np.not_equal, "gt": np.greater, "lt": np.less, "le": np.less_equal}
        expected = np.where(unordered, predicate[0] == "u", compare[predicate[1:]](a, b))
    assert (y == expected).all()


def test_select() -> None:
    a, b = integers(np.int32), integers(np.int32)[::-1].copy()
    body = "%c = arith.cmpi slt, %0, %1 : i32\n%r = arith.select %c, %0, %1 : i32"
    (y,) = run_kernel(elementwise(body, [("i32", N)] * 2, ("i32", N)), a, b, out=[a])
    assert (y == np.minimum(a, b)).all()


def test_constants() -> None:
    """Scalars, splats, lists, NaN, negative zero, bits and indices, exactly."""
    kernel = """
func.func private @kernel(%f: memref<8xf32>, %d: memref<4xf64>, %i: memref<4xi64>, %b: memref<4xi8>) {
  %c0 = arith.constant 0 : index
  %v = arith.constant dense<[0.1, -0.0, 1.0e-40, 1.0, 2.0, 3.0, 16777217.0, -1.5]> : vector<8xf32>
  vector.store %v, %f[%c0] : memref<8xf32>, vector<8xf32>
  %c3 = arith.constant 3 : index
  %c4 = arith.constant 4 : index
  %inf = arith.constant 0x7F800000 : f32
  %nan = arith.constant 0x7FC00000 : f32
  memref.store %inf, %f[%c3] : memref<8xf32>
  memref.store %nan, %f[%c4] : memref<8xf32>
  %w = arith.constant dense<0.1> : vector<4xf64>
  vector.store %w, %d[%c0] : memref<4xf64>, vector<4xf64>
  %x = arith.constant dense<[-1, 9223372036854775807, -9223372036854775808, 0]> : vector<4xi64>
  vector.store %x, %i[%c0] : memref<4xi64>, vector<4xi64>
  %m = arith.constant dense<[true, false, true, true]> : vector<4xi1>
  %z = arith.extui %m : vector<4xi1> to vector<4xi8>
  vector.store %z, %b[%c0] : memref<4xi8>, vector<4xi8>
  func.return
}"""
    out = [empty(8, np.float32), empty(4, np.float64), empty(4, np.int64), empty(4, np.int8)]
    f, d, i, b = run_kernel(kernel, out=out)
    expected = np.array([0.1, -0.0, 1e-40, np.inf, np.nan, 3, 16777217, -1.5], np.float32)
    assert (f.view(np.int32) == expected.view(np.int32)).all()
    assert (d == 0.1).all()
    assert i.tolist() == [-1, 2**63 - 1, -(2**63), 0]
    assert b.tolist() == [1, 0, 1, 1]


def test_index_cast() -> None:
    body = "%k = arith.index_cast %i : index to i32\n%b = arith.index_cast %0 : i32 to index\n"
    body += "%s = arith.addi %b, %i : index\n%t = arith.index_cast %s : index to i32\n%r = arith.addi %k, %t : i32"
    a = integers(np.int32)
    (y,) = run_kernel(elementwise(body, [("i32", N)], ("i32", N)), a, out=[a])
    assert (y == a + 2 * np.arange(N, dtype=np.int32)).all()


def test_products_and_sums_round_twice() -> None:
    """No FMA, even where the processor has one: the fused result differs."""
    a = np.array([1 + 2**-12] * 16, np.float32)
    (y,) = run_kernel(
        elementwise("%p = arith.mulf %0, %0 : f32\n%r = arith.subf %p, %1 : f32", [("f32", 16)] * 2, ("f32", 16)),
        a,
        (a * a).astype(np.float32),
        out=[a],
    )
    assert (y == 0).all()
