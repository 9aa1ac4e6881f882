"""What a device computes: the limits that refuse operations, each with its sentence, and what it asks of the quantizer.

It may import the model, for the tiles of a layer must fit the memories.
"""
