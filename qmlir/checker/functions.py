"""The functions that tables hold, computed to 25 significant digits from Python's decimals.

`largest_error` compares a table's results with its function over all integers of its operand. A function that is not
listed here is not compared, which `check` reports.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import ROUND_HALF_EVEN, Context, Decimal, localcontext
from fractions import Fraction
from functools import cache
from typing import Any

DIGITS = 25

CONTEXT = Context(prec=DIGITS, rounding=ROUND_HALF_EVEN)

Real = Decimal
Parameters = Mapping[str, Any]

INFINITY = Decimal("Infinity")
ZERO, ONE, TWO = Decimal(0), Decimal(1), Decimal(2)


def _exp(x: Real) -> Real:
    return ZERO if x < -2000 else INFINITY if x > 2000 else x.exp()


def _log(x: Real) -> Real:
    return -INFINITY if x <= 0 else x.ln()


def _sigmoid(x: Real) -> Real:
    return ONE / (ONE + _exp(-x)) if x >= 0 else _exp(x) / (ONE + _exp(x))


def _tanh(x: Real) -> Real:
    return TWO * _sigmoid(TWO * x) - ONE


def _expm1(x: Real) -> Real:
    return _exp(x) - ONE


def _softplus(x: Real) -> Real:
    return max(x, ZERO) + (ONE + _exp(-abs(x))).ln()


@cache
def _pi() -> Real:
    """π by Machin's formula, to twice as many digits."""
    with localcontext(Context(prec=2 * DIGITS + 10)):
        return 4 * (4 * _arctangent_of_inverse(5) - _arctangent_of_inverse(239))


@cache
def _root(number: int) -> Real:
    """The root of 2 (for 2), or of π (for 0)."""
    with localcontext(Context(prec=2 * DIGITS)):
        return (Decimal(number) if number else _pi()).sqrt()


def _arctangent_of_inverse(n: int) -> Real:
    total, term, k = ZERO, ONE / n, 1
    while abs(term) > Decimal(10) ** -(2 * DIGITS + 8):
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
    with localcontext(Context(prec=DIGITS + 30, rounding=ROUND_HALF_EVEN)):
        turn = 2 * _pi()
        x -= (x / turn).to_integral_value() * turn
        total, term, k = ZERO, x, 1
        while abs(term) > Decimal(10) ** -(DIGITS + 10):
            total += term
            term = -term * x * x / ((k + 1) * (k + 2))
            k += 2
        return total


def _cosine(x: Real) -> Real:
    with localcontext(Context(prec=DIGITS + 30, rounding=ROUND_HALF_EVEN)):
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
    if p.get("tanh", 0):
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
}
"""The functions by the names of the operations that tables were made from: (argument, parameters) → value.

Arguments outside of a function's domain count as the nearest inside. Functions with jumps are not among them: which
side of a jump an argument lies on may depend on how it is rounded.
"""


def _arcsine(x: Real) -> Real:
    if abs(x) == 1:
        return (_pi() / 2).copy_sign(x)
    return _arctangent(x / (ONE - x * x).sqrt())


def _over(x: Real, y: Real) -> Real | None:
    """x / y; infinity with the sign of x for y = 0, and None for 0 / 0."""
    if not y:
        return INFINITY.copy_sign(x) if x else None
    return x / y


PAIRS: Mapping[str, Callable[[Real, Real], Real | None]] = {
    "nn.div": _over,
    "nn.prelu": lambda x, slope: x * slope if x < 0 else x,
    "nn.squared_difference": lambda x, y: (x - y) ** 2,
    "nn.maximum": max,
    "nn.minimum": min,
}
"""The functions of two elements, likewise; None where there is no value, which is stored as the zero point."""


def largest_error(function: Mapping[str, Any], results: Sequence[int]) -> Fraction | None:
    """The largest error of a table in steps; None if its function is not known here.

    Args:
        function: What the certificate says about the function.
        results: The result for each integer of the operand, from the least on; of two operands, for each integer of the
            first operand those of all integers of the second.
    """
    values = _values(function, len(results))
    if values is None:
        return None
    low, high = map(Decimal, function["clamp"])
    worst = ZERO
    with localcontext(CONTEXT):
        step, zero = Decimal(function["output"]["scale"]), function["output"]["zero_point"]
        for exact, result in zip(values, results, strict=True):
            steps = _clip((ZERO if exact is None else exact / step) + zero, low, high)
            worst = max(worst, abs(steps - result))
    return Fraction(worst)


def _values(function: Mapping[str, Any], count: int) -> Iterator[Real | None] | None:
    """The real values of a table's entries, in order; None if the function is not known."""
    if (pair := PAIRS.get(function["name"])) is not None and "inputs" in function:
        rows, columns = (_reals(each, 256) for each in function["inputs"])
        return (pair(x, y) for x in rows for y in columns)
    if (rule := FUNCTIONS.get(function["name"])) is not None and "input" in function:
        parameters = function["parameters"]
        return (rule(x, parameters) for x in _reals(function["input"], count))
    return None


def _reals(stored: Mapping[str, Any], count: int) -> list[Real]:
    """The real number of each stored integer, from the least on."""
    with localcontext(CONTEXT):
        scale, least = Decimal(stored["scale"]), -(count // 2) - stored["zero_point"]
        return [(least + place) * scale for place in range(count)]


STORAGE = "qmlir.change_storage"
"""The name of the function that turns unsigned bytes into signed ones with the same value less 128, or back."""


def changes_storage(results: Sequence[int]) -> bool:
    """Whether a table of bytes flips the highest bit: it adds or subtracts 128."""
    return list(results) == [(x + 128 & 255) - 256 * ((x + 128 & 255) > 127) for x in range(-128, 128)]
