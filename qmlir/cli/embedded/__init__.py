"""`qmlir compile --bundle`: a folder with everything that a program for a microcontroller takes from a network.

plan.py      what is asked for, and the names that follow      linked.py    weights, memory and calls, as LLVM IR
header.py    the C header                                      vectors.py   what a self-test gives and compares
selftest.py  a self-test, an example, CMake                    steps.py     the same with states or several entries
manifest.py  sizes, hashes and numerics as a document          archive.py   an object as a static library
folder.py    the files of a bundle, written together

It may import everything below the command line. The C texts call no function of a library.
"""
