"""Programs for custom accelerators, and the simulator that executes them as a witness of the compiler.

stream.py holds programs, as files and as text. execute.py runs them, itself or by the model in C (c_model/):
accesses.py derives what each command may touch, races.py checks that overlapping queues cannot change the result,
machine.py holds the memories, report.py counts cycles and bytes. Nothing here knows the IR, the passes, or the
compiler's footprints of commands: a mistake there becomes a fault here.
"""

SIMULATORS = ("auto", "c", "python")
"""What executes a program's commands: the model in C, the functions in Python, or, for `auto`, the faster of them."""
