"""Each remedy that a message names is carried out: the tables of the areas, and what holds them to the package's texts.

A row of a table is the text of a remedy and a case: something that is refused with this text, and the same with the
remedy applied, which works.
"""
