"""Registers from one distribution over threads to another, as plans: linear algebra over GF(2), shuffles, shared memory."""
