"""The model of a device: memories, queues, layouts, footprints and waits of commands, their cycles and their timeline.

It may import the description, and must not know which operations are legal.
"""
