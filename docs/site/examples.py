"""A griffe extension: the examples at the end of a docstring are a section of their own on the page.

Docstrings end with interpreter sessions, which tests run. Without a heading, griffe takes these for running text.
"""

import re
from typing import Any

import griffe

SESSION = re.compile(r"\n\n(>>> .*)\Z", re.DOTALL)


class ExampleSections(griffe.Extension):
    """Puts the session that ends a docstring under the heading `Examples:`."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Changes the docstring of an object that griffe has read."""
        if obj.docstring is not None and (found := SESSION.search(obj.docstring.value)):
            lines = "\n".join(f"    {line}" if line else "" for line in found[1].splitlines())
            obj.docstring.value = f"{obj.docstring.value[: found.start()]}\n\nExamples:\n{lines}\n"
