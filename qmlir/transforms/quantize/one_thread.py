"""Makes sums independent of the number of threads.

BLAS divides a matrix product among as many threads as there are processors, and each division adds in another order.
The last bits of a sum can decide in which direction a weight is rounded, so decisions on data are computed on one
thread.
"""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from threadpoolctl import threadpool_limits  # pyright: ignore[reportMissingTypeStubs]

P = ParamSpec("P")
T = TypeVar("T")


def on_one_thread(function: Callable[P, T]) -> Callable[P, T]:
    """Wraps a function so that BLAS uses one thread while the function runs."""

    @wraps(function)
    def alone(*args: P.args, **kwargs: P.kwargs) -> T:
        with threadpool_limits(limits=1, user_api="blas"):
            return function(*args, **kwargs)

    return alone
