"""Proposes known names for a wrong name: `did you mean "schema"?`.

Every place that looks a user's name up (passes, options, tensors, policies) ends its error with this sentence.
"""

import difflib
from collections.abc import Iterable

_LONGEST = 200
"""Characters of a name that are compared: qmlir's own names are shorter, and the time grows with the square."""


def near_misses(name: str, known: Iterable[str], *, prefix: str = "") -> str | None:
    """Returns the remedy for an unknown `name`: the known names it may have meant, or all of them if they are few.

    Args:
        name: The name the user wrote.
        known: The names that exist.
        prefix: Text before each name, such as `--` before a flag.

    Returns:
        A clause for the end of an error, or None if no name is similar and there are too many to list.
    """
    names, name = sorted(set(known)), name[:_LONGEST]
    alike = {n: difflib.SequenceMatcher(None, n[:_LONGEST], name).ratio() for n in names}
    best = max(alike.values(), default=0.0)
    # A name clearly less similar than the best is noise: all operations of a dialect have a prefix in common.
    near = sorted((n for n in names if alike[n] >= max(0.6, best - 0.1)), key=lambda n: -alike[n])[:3]
    near += [n for n in names if name and n.startswith(name) and n not in near][: 3 - len(near)]
    if near:
        return "did you mean " + " or ".join(f"{prefix}{n}" for n in near) + "?"
    if 0 < len(names) <= 12:
        return "known: " + ", ".join(f"{prefix}{n}" for n in names)
    return None
