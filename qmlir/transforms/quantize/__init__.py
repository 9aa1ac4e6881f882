"""Passes that turn observed ranges into quantized types, and the steps that these passes consist of.

prepare/    the float network, with the policy written on it
ranges/     ranges of tensors, and the tensors that share a range and a type
adjust/     channels, weights, biases and inputs, on ranges or on data
apply/      casts, and operations on quantized types
reasons.py  why an operation stays float: the one place
op_configs.py  the settings of each operation and each tensor
"""
