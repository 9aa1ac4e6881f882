"""Writes the generated pages: operators, devices, documents in JSON, errors, facts, the command line, the Python API.

    PYTHONPATH=. python docs/site/pages.py            writes them anew (`make tables`)
    PYTHONPATH=. python docs/site/pages.py --check    exit status 1 if a page is not fresh

Each page is the result of a function of the module beside this one that bears the page's subject.
"""

import argparse
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import devices
import documents
import errors
import facts
import operators
import reference

from qmlir.running.files import write_whole

ROOT = Path(__file__).resolve().parents[2]

PAGES: Mapping[str, Callable[[], str]] = {
    "OPERATORS.md": operators.page,
    "DEVICES.md": devices.page,
    "docs/json.md": documents.page,
    "docs/errors.md": errors.page,
    "docs/architecture.md": facts.page,
    **{f"docs/{name}": partial(reference.page, name) for name in reference.PAGES},
}


def main() -> int:
    """Writes the pages, or checks that they are fresh."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="fail where a page is not fresh, and write nothing")
    check, stale = parser.parse_args().check, list[str]()
    for name, page in PAGES.items():
        path, text = ROOT / name, page()
        if not check:
            write_whole(path, text)
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            stale.append(name)
    sys.stderr.write("".join(f"{name} is not fresh: run `make tables` and commit it\n" for name in stale))
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
