"""The functions that tables hold, computed to 25 significant digits from Python's decimals.

`largest_error` compares a table's results with its function over all integers of its operand. No other function than
those listed here may stand in a certificate.
"""

import json
import math
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal, InvalidOperation, localcontext
from fractions import Fraction
from functools import cache, lru_cache
from typing import Any

from qmlir.checker.unproven import UnprovenError

DIGITS = 25

CONTEXT = Context(prec=DIGITS, rounding=ROUND_HALF_EVEN, traps=[InvalidOperation])
"""The context of all functions: what overflows is infinite, what underflows is 0."""

MOST_ENTRIES = 1 << 23
"""The most entries of tables that are compared with functions, about five minutes of work."""


class Budget:
    """The entries of tables that may still be compared; one for each certificate that is derived.

    known  the errors of the tables that were compared: the steps of an unrolled cell have equal tables
    """

    def __init__(self) -> None:
        self._left = MOST_ENTRIES
        self.known: dict[tuple[str, bool, tuple[int, ...]], Fraction] = {}

    def spend(self, entries: int) -> None:
        """Takes entries off.

        Raises:
            UnprovenError: There are more than `MOST_ENTRIES` altogether.
        """
        self._left -= entries
        if self._left < 0:
            raise UnprovenError(f"tables of more than {MOST_ENTRIES} entries together")


Real = Decimal
Parameters = Mapping[str, Any]

INFINITY = Decimal("Infinity")
ZERO, ONE, TWO = Decimal(0), Decimal(1), Decimal(2)


@lru_cache(1 << 16)  # of a table of 16 bits, numbers below and above its zero point have exponentials in common
def exponential(x: Real) -> Real:
    """e^x; 0 and infinity for arguments so far from 0 that no scale tells the difference."""
    return ZERO if x < -2000 else INFINITY if x > 2000 else CONTEXT.exp(x)


def falling_exponentials(step: Real, count: int) -> Iterator[Real]:
    """e^(−n · step) for n from 0 below `count`: products of e^(−256a · step) and e^(−b · step), to 25 digits."""
    coarse, fine = Context(prec=2 * DIGITS), Context(prec=DIGITS, rounding=ROUND_HALF_EVEN)

    def power(n: int) -> Real:
        x = coarse.multiply(Decimal(-n), step)
        return ZERO if x < -2000 else coarse.exp(x)

    parts = [power(b) for b in range(256)]
    for start in range(0, count, 256):
        first = power(start)
        yield from (fine.multiply(first, part) for part in parts[: count - start])


_exp = exponential


def _log(x: Real) -> Real:
    return -INFINITY if x <= 0 else x.ln()


def _sigmoid(x: Real) -> Real:
    small = _exp(-abs(x))
    return (ONE if x >= 0 else small) / (ONE + small)


def _tanh(x: Real) -> Real:
    return TWO * _sigmoid(TWO * x) - ONE


def _expm1(x: Real) -> Real:
    return _exp(x) - ONE


def _softplus(x: Real) -> Real:
    return max(x, ZERO) + (ONE + _exp(-abs(x))).ln()


PI_DIGITS = 120


@cache
def _pi() -> Real:
    """π by Machin's formula, to 120 digits: enough for arguments of 10^45 turns."""
    with localcontext(Context(prec=PI_DIGITS + 10)):
        return 4 * (4 * _arctangent_of_inverse(5) - _arctangent_of_inverse(239))


@cache
def _root(number: int) -> Real:
    """The root of 2 (for 2), or of π (for 0)."""
    with localcontext(Context(prec=2 * DIGITS)):
        return (Decimal(number) if number else _pi()).sqrt()


def _arctangent_of_inverse(n: int) -> Real:
    total, term, k = ZERO, ONE / n, 1
    while abs(term) > Decimal(10) ** -(PI_DIGITS + 8):
        total, term, k = total + (term / k if k % 4 == 1 else -term / k), term / (n * n), k + 2
    return total


def _erf(x: Real) -> Real:
    """erf by its series, which is alternating: its largest term has about x² / ln 10 digits, which it cancels."""
    if abs(x) > 8:  # 1 to 29 digits
        return ONE if x > 0 else -ONE
    with localcontext(Context(prec=DIGITS + 5 + int(x * x) // 2)):
        total, term, k, square, least = ZERO, x, 0, -x * x, Decimal(10) ** -DIGITS
        while abs(term) > least:
            total += term / (2 * k + 1)
            k += 1
            term = term * square / k
        return TWO * total / _root(0)


def _sine(x: Real) -> Real:
    digits = DIGITS + 30 + max(0, x.adjusted())  # of an argument of many turns, only its last digits count
    with localcontext(Context(prec=digits, rounding=ROUND_HALF_EVEN)):
        turn = 2 * _pi()
        x -= (x / turn).to_integral_value() * turn
        total, term, k = ZERO, x, 1
        while abs(term) > Decimal(10) ** -(DIGITS + 10):
            total += term
            term = -term * x * x / ((k + 1) * (k + 2))
            k += 2
        return total


def _cosine(x: Real) -> Real:
    with localcontext(Context(prec=DIGITS + 30 + max(0, x.adjusted()), rounding=ROUND_HALF_EVEN)):
        return _sine(x + _pi() / 2)


def _arctangent(x: Real) -> Real:
    with localcontext(Context(prec=DIGITS + 20, rounding=ROUND_HALF_EVEN)):
        for _ in range(6):  # each step halves the angle
            x = x / (ONE + (ONE + x * x).sqrt())
        total, term, k = ZERO, x, 1
        while abs(term) > Decimal(10) ** -(DIGITS + 10):
            total += term / k if k % 4 == 1 else -term / k
            term, k = term * x * x, k + 2
        return 64 * total


def _gelu(x: Real, p: Parameters) -> Real:
    if p["tanh"]:
        inner = _root(2) / _root(0) * (x + Decimal("0.044715") * x**3)
        return x * _sigmoid(TWO * inner)
    return x * (ONE + _erf(x / _root(2))) / 2


def _clip(x: Real, low: Real, high: Real) -> Real:
    return min(max(x, low), high)


def _unit(x: Real) -> Real:
    return _clip(x, -ONE, ONE)


def _real(p: Parameters, name: str) -> Real:
    return Decimal(p[name])


def _asinh(x: Real) -> Real:
    size = abs(x)
    return (size + (size * size + 1).sqrt()).ln().copy_sign(x) if x else ZERO


def _acosh(x: Real) -> Real:
    x = max(x, ONE)
    return (x + (x * x - 1).sqrt()).ln()


def _atanh(x: Real) -> Real:
    if abs(x) >= 1:
        return INFINITY.copy_sign(x)
    return ((ONE + x) / (ONE - x)).ln() / 2


def _jumping(rule: Callable[[Real, Parameters], Real]) -> Callable[[Real, Parameters], Real]:
    """A function with jumps: its argument counts as it is in float32, into which the compiler rounds it."""
    return lambda x, p: rule(_in_float32(float(x)), p)


def _in_float32(x: float) -> Real:
    try:
        (narrow,) = struct.unpack("<f", struct.pack("<f", x))
    except OverflowError:
        narrow = math.copysign(math.inf, x)
    return Decimal(narrow)


def _whole(rounding: str) -> Callable[[Real, Parameters], Real]:
    return _jumping(lambda x, p: x.to_integral_value(rounding) if x.is_finite() else x)


def _shrunk(x: Real, p: Parameters) -> Real:
    bias, threshold = _real(p, "bias"), _real(p, "threshold")
    return x + bias if x < -threshold else x - bias if x > threshold else ZERO


FUNCTIONS: Mapping[str, Callable[[Real, Parameters], Real]] = {
    "nn.relu": lambda x, p: x,  # the clamp does the rest
    "nn.clamp": lambda x, p: x,
    "nn.requantize": lambda x, p: x,
    "nn.abs": lambda x, p: abs(x),
    "nn.neg": lambda x, p: -x,
    "nn.exp": lambda x, p: _exp(x),
    "nn.log": lambda x, p: _log(x),
    "nn.sqrt": lambda x, p: max(x, ZERO).sqrt(),
    "nn.rsqrt": lambda x, p: ONE / x.sqrt() if x > 0 else INFINITY,
    "nn.reciprocal": lambda x, p: ONE / x if x else INFINITY,
    "nn.sigmoid": lambda x, p: _sigmoid(x),
    "nn.tanh": lambda x, p: _tanh(x),
    "nn.erf": lambda x, p: _erf(x),
    "nn.gelu": _gelu,
    "nn.hard_sigmoid": lambda x, p: _clip(x * _real(p, "alpha") + _real(p, "beta"), ZERO, ONE),
    "nn.hard_swish": lambda x, p: x * _clip(x / 6 + ONE / 2, ZERO, ONE),
    "nn.leaky_relu": lambda x, p: x * _real(p, "alpha") if x < 0 else x,
    "nn.elu": lambda x, p: _expm1(x) * _real(p, "alpha") if x < 0 else x,
    "nn.selu": lambda x, p: (_expm1(x) * _real(p, "alpha") if x < 0 else x) * _real(p, "gamma"),
    "nn.celu": lambda x, p: max(x, ZERO) + min(_expm1(x / _real(p, "alpha")) * _real(p, "alpha"), ZERO),
    "nn.softplus": lambda x, p: _softplus(x),
    "nn.softsign": lambda x, p: x / (ONE + abs(x)),
    "nn.mish": lambda x, p: x * _tanh(_softplus(x)),
    "nn.swish": lambda x, p: x * _sigmoid(x * _real(p, "alpha")),
    "nn.sin": lambda x, p: _sine(x),
    "nn.cos": lambda x, p: _cosine(x),
    "nn.atan": lambda x, p: _arctangent(x),
    "nn.asin": lambda x, p: _arcsine(_unit(x)),
    "nn.acos": lambda x, p: _pi() / 2 - _arcsine(_unit(x)),
    "nn.sinh": lambda x, p: (_exp(x) - _exp(-x)) / 2,
    "nn.cosh": lambda x, p: (_exp(x) + _exp(-x)) / 2,
    "nn.asinh": lambda x, p: _asinh(x),
    "nn.acosh": lambda x, p: _acosh(x),
    "nn.atanh": lambda x, p: _atanh(x),
    "nn.tan": lambda x, p: _sine(x) / _cosine(x),
    "nn.sign": _jumping(lambda x, p: ONE.copy_sign(x) if x else ZERO),
    "nn.floor": _whole(ROUND_FLOOR),
    "nn.ceil": _whole(ROUND_CEILING),
    "nn.round": _whole(ROUND_HALF_EVEN),
    "nn.thresholded_relu": _jumping(lambda x, p: x if x > _real(p, "alpha") else ZERO),
    "nn.shrink": _jumping(_shrunk),
    "nn.binarize": _jumping(lambda x, p: ONE if x > _real(p, "threshold") else ZERO),
}
"""The functions by the names of the operations that tables were made from: (argument, parameters) → value.

Arguments outside of a function's domain count as the nearest inside.
"""

PARAMETERS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("nn.leaky_relu", "nn.elu", "nn.celu", "nn.swish", "nn.thresholded_relu"), ("alpha",)),
    "nn.gelu": ("tanh",),
    "nn.hard_sigmoid": ("alpha", "beta"),
    "nn.selu": ("alpha", "gamma"),
    "nn.shrink": ("bias", "threshold"),
    "nn.binarize": ("threshold",),
    "nn.mod": ("truncated",),
}
"""The parameters that functions read; the other functions read none."""

JUMPING = (
    *("nn.sign", "nn.floor", "nn.ceil", "nn.round", "nn.thresholded_relu", "nn.shrink", "nn.binarize"),
    *("nn.mod", "nn.pow"),
)
"""The functions with jumps, or with values at whole numbers only: their arguments count as they are in float32."""

TRUTHS = ("tanh", "truncated")
"""The parameters that are true or false."""


def _arcsine(x: Real) -> Real:
    if abs(x) == 1:
        return (_pi() / 2).copy_sign(x)
    return _arctangent(x / (ONE - x * x).sqrt())


def _over(x: Real, y: Real) -> Real | None:
    """x / y; infinity with the sign of x for y = 0, and None for 0 / 0."""
    if not y:
        return INFINITY.copy_sign(x) if x else None
    return x / y


def _remainder(x: Real, y: Real, p: Parameters) -> Real | None:
    """The remainder of x / y, of arguments in float32, with the sign of y or, if it is truncated, of x."""
    dividend, divisor = float(x), float(y)
    if not divisor:
        return None
    rest = math.fmod(dividend, divisor)
    astray = rest and (rest < 0) != (divisor < 0) and not p["truncated"]
    return Decimal(rest + divisor if astray else rest)


def _power(x: Real, y: Real) -> Real | None:
    """x^y; None for a negative x and a y that is no whole number."""
    if not y or x == 1:
        return ONE
    if not x:
        return ZERO if y > 0 else INFINITY
    if x < 0 and not float(y).is_integer():
        return None
    steps = y * abs(x).ln()
    size = exponential(steps)
    return -size if x < 0 and float(y) % 2 else size


PAIRS: Mapping[str, Callable[[Real, Real, Parameters], Real | None]] = {
    "nn.div": lambda x, y, p: _over(x, y),
    "nn.prelu": lambda x, slope, p: x * slope if x < 0 else x,
    "nn.squared_difference": lambda x, y, p: (x - y) ** 2,
    "nn.maximum": lambda x, y, p: max(x, y),
    "nn.minimum": lambda x, y, p: min(x, y),
    "nn.mod": _remainder,
    "nn.pow": lambda x, y, p: _power(x, y),
}
"""The functions of two elements, likewise; None where there is no value, which is stored as the zero point."""


def largest_error(function: Mapping[str, Any], results: Sequence[int], budget: Budget, *, pairs: bool) -> Fraction:
    """The largest error of a table in steps.

    Args:
        function: What the certificate says about the function.
        results: The result for each integer of the operand, from the least on; of two operands, for each integer of the
            first operand those of all integers of the second.
        budget: The entries of tables that may still be compared.
        pairs: Whether the table has two operands.

    Raises:
        UnprovenError: The function has another number of operands, or parameters that it does not read.
    """
    key = json.dumps(function, sort_keys=True), pairs, tuple(results)
    if key not in budget.known:
        budget.spend(len(results))
        budget.known[key] = _largest_error(function, results, pairs=pairs)
    return budget.known[key]


def _largest_error(function: Mapping[str, Any], results: Sequence[int], *, pairs: bool) -> Fraction:
    name, parameters, (least, most) = function["name"], function["parameters"], function["clamp"]
    if ("inputs" in function) != pairs or least > most:
        got = f"the function {name} for a table of {'two operands' if pairs else 'one operand'}"
        raise UnprovenError(got, "must have a function that its table can hold")
    if set(parameters) != set(PARAMETERS.get(name, ())) or any(
        isinstance(value, bool) != (key in TRUTHS) for key, value in parameters.items()
    ):
        need = "must have a function with the parameters that it reads, and with no others"
        raise UnprovenError(f"the function {name}", need)
    low, high, worst = Decimal(least), Decimal(most), ZERO
    with localcontext(CONTEXT):
        step, zero = Decimal(function["output"]["scale"]), function["output"]["zero_point"]
        for exact, result in zip(_values(function, len(results)), results, strict=True):
            steps = _clip((ZERO if exact is None else exact / step) + zero, low, high)
            worst = max(worst, abs(steps - result))
    return Fraction(worst)


def _values(function: Mapping[str, Any], count: int) -> Iterator[Real | None]:
    """The real values of a table's entries, in order."""
    name, parameters = function["name"], function["parameters"]
    if "inputs" in function:
        pair = PAIRS[name]
        rows, columns = (_reals(each, 256, name) for each in function["inputs"])
        return (pair(x, y, parameters) for x in rows for y in columns)
    rule = FUNCTIONS[name]
    return (rule(x, parameters) for x in _reals(function["input"], count, name))


def _reals(stored: Mapping[str, Any], count: int, name: str) -> list[Real]:
    """The real number of each stored integer, from the least on; in float32 for functions with jumps."""
    least = -(count // 2) - stored["zero_point"]
    if name in JUMPING:
        return [_in_float32((least + place) * float(stored["scale"])) for place in range(count)]
    with localcontext(CONTEXT):
        scale = Decimal(stored["scale"])
        return [(least + place) * scale for place in range(count)]


CHANGES_STORAGE = {"name": "qmlir.change_storage"}
"""The function that turns unsigned bytes into signed ones with the same value less 128, or back, as it is stated."""


def changes_storage(results: Sequence[int]) -> bool:
    """Whether a table of bytes flips the highest bit: it adds or subtracts 128."""
    return list(results) == [(x + 128 & 255) - 256 * ((x + 128 & 255) > 127) for x in range(-128, 128)]
