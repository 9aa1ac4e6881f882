"""Rounds real numbers to integers whose errors interact (adaptive rounding).

Which integers there are, numerics/levels.py says.

Rounding each number to the nearest integer is best if the errors do not interact. Where integers q stand for targets
t, and a positive definite matrix H gives the cost of their errors together,

    cost(q) = (q − t)ᵀ H (q − t),

the best q is the point of a lattice nearest to t in the metric of H, which is hard to find. Two classic steps find a
near point:

1. *Successive rounding.* With H = L·Lᵀ the cost is Σ_k L_kk²·(q_k − c_k)², where c_k is t_k moved by the errors of
   the numbers after it: c_k = t_k − Σ_{j>k} (q_j − t_j)·L_jk / L_kk. So numbers are rounded from the last to the
   first, each around its c_k. This is Babai's nearest plane (1986); as a method for weights, with the errors fed
   forward through H⁻¹, it is optimal brain surgery and quantization and GPTQ (Hassibi and Stork 1993, Frantar et al.
   2022). Numbers whose errors cost most are rounded first, as the numbers rounded later can still make up for their
   errors.
2. *Coordinate descent.* Each number in turn is set to the best integer, given the current values of the others; no
   step makes the cost larger.
"""

import numpy as np

from qmlir.numerics import Array
from qmlir.numerics.levels import Choices

BLOCK = 64
"""The number of columns that are rounded one by one before one matrix product passes their errors to the rest."""

SWEEPS = 4
"""The largest number of rounds of coordinate descent; further rounds change too little to show in any result."""


def near_integers(targets: Array, form: Array, choices: Choices) -> Array:
    """Integers that approximate real numbers at little cost, by successive rounding and coordinate descent.

    Args:
        targets: t, [g, m, k] float64: m rows of k numbers for each of g forms.
        form: H, [g, k, k], symmetric and positive definite.
        choices: The integers that numbers may become.

    Returns:
        [g, m, k], integers as float64.
    """
    return descended(rounded_in_turn(targets, form, choices), targets, form, choices)


def cost(integers: Array, targets: Array, form: Array) -> Array:
    """(q − t)ᵀ H (q − t) of each row, [g, m]."""
    errors = integers - targets
    return np.einsum("gmk,gmk->gm", errors @ form, errors)


def rounded_in_turn(targets: Array, form: Array, choices: Choices) -> Array:
    """Rounds numbers in turn (step 1 of this module); arguments and result are those of `near_integers`."""
    order = np.argsort(np.diagonal(form, axis1=1, axis2=2), axis=1, kind="stable")
    t, choices = np.take_along_axis(targets, order[:, None], axis=2), choices.in_order(order)
    ordered = np.take_along_axis(np.take_along_axis(form, order[:, :, None], axis=1), order[:, None], axis=2)
    factor = np.linalg.cholesky(ordered)
    factor /= np.diagonal(factor, axis1=1, axis2=2)[:, None].copy()
    errors = np.zeros_like(t)
    for first in reversed(range(0, t.shape[2], BLOCK)):
        last = min(first + BLOCK, t.shape[2])
        fed = errors[:, :, last:] @ factor[:, last:, first:last]
        for k in reversed(range(last - first)):
            column = t[:, :, first + k]
            error = choices.nearest_at(column - fed[:, :, k], first + k) - column
            errors[:, :, first + k] = error
            fed[:, :, :k] += error[:, :, None] * factor[:, first + k, None, first : first + k]
    integers = np.empty_like(t)
    np.put_along_axis(integers, np.broadcast_to(order[:, None], t.shape), np.rint(t + errors), axis=2)
    return integers


def descended(start: Array, targets: Array, form: Array, choices: Choices) -> Array:
    """Improves integers `start` by coordinate descent (step 2); other arguments and result as for `near_integers`."""
    integers = start.copy()
    errors = integers - targets
    curvature = np.diagonal(form, axis1=1, axis2=2)
    for _ in range(SWEEPS):
        changed = False
        for first in range(0, targets.shape[2], BLOCK):
            last = min(first + BLOCK, targets.shape[2])
            slope = errors @ form[:, :, first:last]
            for k in range(first, last):
                old = integers[:, :, k]
                new = choices.nearest_at(old - slope[:, :, k - first] / curvature[:, k, None], k)
                step = new - old
                moved = np.nonzero(step)
                if len(moved[0]):
                    changed = True
                    integers[:, :, k] = new
                    errors[:, :, k] += step
                    slope[moved] += step[moved][:, None] * form[moved[0], k, first:last]
        if not changed:
            break
    return integers
