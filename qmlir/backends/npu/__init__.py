"""Programs for custom accelerators, and the simulator that executes them as a witness of the compiler.

stream.py holds programs, as files and as text. execute.py runs them: accesses.py derives what each command may touch,
races.py checks that overlapping queues cannot change the result, machine.py holds the memories, report.py counts cycles
and bytes. Nothing here knows the IR, the passes, or the compiler's footprints of commands: a mistake there becomes a
fault here.
"""
