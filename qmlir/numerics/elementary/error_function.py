"""The error functions erf and erfc, for arrays and for scalar kernels."""

import math

from qmlir.numerics.elementary.exponential import exp, horner
from qmlir.numerics.elementary.lanes import N

CENTRE = 3.75

ERFC_COEFFICIENTS: tuple[float, ...] = tuple(
    map(
        float.fromhex,
        (
            "-0x1.6884628ace07ap-29", "-0x1.0cb63a80de2c5p-29", "0x1.12b326b5668bfp-25", "0x1.42d2ea1df7aecp-26",
            "-0x1.0ae6bf9452a1fp-22", "-0x1.b4c0937b25a0bp-25", "0x1.d39c1a3875509p-20", "-0x1.06de6954a39b5p-20",
            "-0x1.7fcc159f9a760p-17", "0x1.7799dcd2368cbp-16", "0x1.b13e13fe20445p-15", "-0x1.303ffbfe45e88p-12",
            "0x1.33fb5a5e7ca14p-12", "0x1.cc3a13daa5d95p-10", "-0x1.3f603c7e65d24p-7", "0x1.d0b0037036098p-6",
            "-0x1.e0d0fa6c16f3fp-5", "0x1.7a14188ae18fap-4", "-0x1.bda9309a35871p-4", "0x1.510169d093c18p-4",
            "0x1.d5f294816277ep-9", "-0x1.1f367683f8967p-3", "0x1.3ccda0b5d5dc2p+0",
        ),
    )
)  # fmt: skip
"""Coefficients of (1 + 2·z) · e^(z²) · erfc(z), z ≥ 0, in u = (z − 3.75)/(z + 3.75), highest power first.

They come from Chebyshev interpolation at 80 points in 60 digits, truncated at degree 22; relative error < 2^-52.
"""

FARTHEST = 30.0
"""The argument beyond which erfc is below the least float64."""

ERF_SMALL = 0.5

ERF_COEFFICIENTS: tuple[float, ...] = tuple(
    2 / math.sqrt(math.pi) * (-1.0) ** k / (math.factorial(k) * (2 * k + 1)) for k in range(13, -1, -1)
)
"""Taylor coefficients of erf(x)/x in x², highest power first, for |x| < 1/2; truncation error < 2^-60."""


def _upper(z: N) -> N:
    """Returns erfc(z) for z ≥ 0; NaN stays NaN."""
    z = z.minimum(FARTHEST)
    u = (z - CENTRE) / (z + CENTRE)
    return exp(0.0 - z * z) * horner(ERFC_COEFFICIENTS, u) / (1.0 + 2.0 * z)


def erf(x: N) -> N:
    """The error function 2/√π · ∫₀ˣ e^(−t²) dt, relative error < 2^-48."""
    a = x.magnitude()
    large = (1.0 - _upper(a)).with_sign_of(x)
    return a.less(ERF_SMALL).choose(x * horner(ERF_COEFFICIENTS, x * x), large)


def erfc(x: N) -> N:
    """The complementary error function 1 − erf(x), relative error < 2^-42, for tiny results too."""
    y = _upper(x.magnitude())
    return x.less(0.0).choose(2.0 - y, y)
