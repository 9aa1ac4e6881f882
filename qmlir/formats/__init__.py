"""Names in model files, in both directions: an importer reads an operator by the table by which an exporter writes it.

One file for each format. It may import the dialects and what lies below; it must not know files or graphs.
"""
