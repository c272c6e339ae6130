"""The named conditions of the lowering rules: one module per family, all entered into the tables of ``registry``."""

from . import (
    cluster,
    elementwise,
    gemm,
    matrix_copy,
    mma_sync,
    operands,
    product_fma,
    redistribute,
    reduce,
    scaled_gemm,
    spread,
    stationary_gemm,
    tensor_copy,
    threads,
    tmem,
    tmem_copy,
    tmem_factor,
    vectors,
)  # fmt: skip
from .registry import CONDITIONS, CONDITIONS_AT, OPTIONS
from .vectors import MONOTONE

__all__ = [
    "CONDITIONS",
    "CONDITIONS_AT",
    "MONOTONE",
    "OPTIONS",
    "cluster",
    "elementwise",
    "gemm",
    "matrix_copy",
    "mma_sync",
    "operands",
    "product_fma",
    "redistribute",
    "reduce",
    "scaled_gemm",
    "spread",
    "stationary_gemm",
    "tensor_copy",
    "threads",
    "tmem",
    "tmem_copy",
    "tmem_factor",
    "vectors",
]  # fmt: skip
