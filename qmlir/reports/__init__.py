"""Reports: one page of HTML that shows the facts of a network, and needs neither a network nor a server to be read.

This folder turns plain data (analysis/facts.py) into the page: it lays the graph out, makes the plots with bokeh, and
puts both with the style and the scripts of `assets/` into one file. It may import analysis; only the command line
imports it. It must not know how facts are gathered, except for `report` in report.py, which does both for users.
"""
