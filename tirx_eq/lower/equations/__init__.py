"""Proofs of lowerings: the program is executed symbolically for all threads and compared with what its call means."""
