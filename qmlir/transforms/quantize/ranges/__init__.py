"""The ranges of tensors: observers, the profile that fills them, and the tensors that share one range and one type.

It may import profiles and the configs. It must not know what is done with a range.
"""
