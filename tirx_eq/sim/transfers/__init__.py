"""Asynchronous copies: cp.async, bulk copies, tensor copies, and the tensor maps they go through."""
