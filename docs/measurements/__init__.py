"""What is measured, not asserted: speed beside other runtimes, accuracy by option, and reports on trained networks.

The commands of the Makefile print the figures (`make bench`, `accuracy`, `certify`, `everywhere`, `explore`,
`hardware`, `npu` and `tune`). Tests of qmlir call some of the same functions on few samples: what they assert stands in
tests/models.
"""
