"""What the tests of drivers start from."""

from pathlib import Path

import pytest

from tests.cli.small import Small, write_small


@pytest.fixture
def small(tmp_path: Path) -> Small:
    """A small network with its data, in a folder of its own."""
    return write_small(tmp_path)
