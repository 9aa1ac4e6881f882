"""The measurements find the shared models as the tests do."""

from tests.conftest import shared

__all__ = ["shared"]
