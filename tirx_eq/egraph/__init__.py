"""Equality saturation: encoding, rules, analyses, extraction; ``simplify`` for index expressions.

Import the submodules; this package imports nothing, so that ``import tirx_eq`` stays free of egglog.
"""
