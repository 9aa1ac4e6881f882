"""Samples on disk as inputs of a network, for users of Python and of the command line.

reading.py    `read_samples`, and the texts that say how samples are read
files.py      the samples in a file or a folder
arrays.py     .npy and .npz files
pictures.py   how pixels become numbers
"""
