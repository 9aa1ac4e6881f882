"""The checker of certificates: derives every proof of a certificate anew, for readers who do not trust the compiler.

It reads an artefact, which is a network of integers in MLIR's text or a program for a device, and a certificate, and
needs nothing else. It shares no code with the passes, with the numerics or with the part of qmlir that writes
certificates: it uses the parser of the IR, the definitions of the dialects and the instruction set. It computes with
Python's own integers, fractions and decimals. Import contracts in pyproject.toml keep it so.

schema.json        the keys, types and bounds of certificates, and which fields are on trust
schema.py          the comparison with it
reading.py         files and JSON from strangers, within bounds
network.py         an artefact as plain Python data
floats.py          operations on floats at the entry and at the exit
operations.py      the fields of operations and of constants
unproven.py        the error for what cannot be proved
deriver.py         what rules about intervals share
weights.py         sums over constants of millions of elements, and their ends
intervals.py       the interval of each value and of each sum
normalizations.py  likewise, of softmax and of quotients by roots
errors.py          the errors of operations that round by themselves
rounding.py        the rounding contracts, with 64 bits
code.py            what object files compute on floats
program.py         a device's program as plain Python data
memory.py          what the bytes of its memories hold
commands.py        the intervals of what its commands compute
functions.py       the functions of tables, to 25 digits
document.py        the whole certificate that follows from an artefact
check.py           the comparison of a certificate with it
"""

from qmlir.checker.check import Checked, CheckError, check, check_certificate, counts_of

__all__ = ["CheckError", "Checked", "check", "check_certificate", "counts_of"]
