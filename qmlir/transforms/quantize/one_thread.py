"""Sums that come out alike on any number of threads.

BLAS divides a product of matrices among as many threads as there are processors, and each division adds in another
order. The last bits of a sum decide in which direction a weight is rounded; so what is decided on data runs on one.
"""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from threadpoolctl import threadpool_limits  # pyright: ignore[reportMissingTypeStubs]

P = ParamSpec("P")
T = TypeVar("T")


def on_one_thread(function: Callable[P, T]) -> Callable[P, T]:
    """A function during which BLAS uses one thread."""

    @wraps(function)
    def alone(*args: P.args, **kwargs: P.kwargs) -> T:
        with threadpool_limits(limits=1, user_api="blas"):
            return function(*args, **kwargs)

    return alone
