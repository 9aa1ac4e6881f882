"""Files that users write and read: written whole or not at all, bounded when read, with the place of every mistake.

What the files mean is not known here. It may import `errors` only.
"""
