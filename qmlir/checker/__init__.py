"""The checker: derives certificates, and compares given ones with those that it derives.

Its derivation is the proof, and there is no other: `qmlir certify` writes it down, and `qmlir certify --check` derives
it anew from the artefact that a certificate names, and compares. The artefact is a network of integers in MLIR's text,
a program for a device or an object file. So what is trusted is this package, the parser of the IR, the definitions of
the dialects, the instruction set, and the fields that schema.json marks: what integers stand for, which the artefact
does not tell. Errors follow from these fields; intervals and widths do not.

The checker shares no code with the passes and with the numerics, so that no mistake of theirs is a mistake of a proof.
It computes with Python's own integers, fractions and decimals. Import contracts in pyproject.toml keep it so.

schema.json        the keys, types and bounds of certificates, and which fields are on trust
schema.py          the comparison with it
reading.py         files and JSON from strangers, within bounds
network.py         an artefact as plain Python data
floats.py          operations on floats at the entry and at the exit
operations.py      the fields of operations and of constants
unproven.py        the errors for what cannot be proved
ranges.py          intervals, and sums that have to fit a width
deriver.py         what rules about intervals share
weights.py         sums over constants of millions of elements, and their ends
intervals.py       the interval of each value and of each sum
normalizations.py  likewise, of softmax and of quotients by roots
errors.py          the errors of operations that round by themselves
rounding.py        the rounding contracts, with 64 bits
code.py            what LLVM IR, assembly and object files compute on floats
program.py         a device's program as plain Python data
memory.py          what the bytes of its memories hold
commands.py        the intervals of what its commands compute
row_commands.py    likewise, of whole rows
functions.py       the functions of tables, to 25 digits
document.py        the whole certificate of an artefact
check.py           the comparison of a certificate with it
"""

from qmlir.checker.check import Checked, CheckError, check, check_certificate, counts_of

__all__ = ["CheckError", "Checked", "check", "check_certificate", "counts_of"]
