"""Profiles: the ranges, histograms and moments of a network's tensors, and the files that hold them.

It may import `numerics`, `files` and `errors`; it must not know operations, only names of tensors.
"""
