"""What decides how each operation is quantized: rules, targets, legality, the runtimes that are followed, the ledger.

It may import the dialects and what lies below; it must not know the passes that carry decisions out.
"""
