"""`python -m qmlir`: the command `qmlir`."""

import sys

from qmlir.cli.main import main

sys.exit(main())
