"""The pass `share-items`, which decides what several threads share.

share_items.py   the pass          work.py   how much work a call of a kernel is
"""
