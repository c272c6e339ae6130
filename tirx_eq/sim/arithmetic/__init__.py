"""Arithmetic of integers and floats, and conversions, at their exact widths."""
