"""The table of products on the tensor core: each of its entries computes what numpy computes.

A share of the entries is executed in every run; with ``TIRX_EQ_CELLS=1`` all of them are.
"""

from __future__ import annotations

import zlib

import pytest

from tirx_eq.ir import dtype as dt
from tirx_eq.lower.conditions.gemm import KINDS, SCALED_KINDS, Kind

from ..lower.test_run_padded import Padded
from ..lower.test_run_tmem_factors import check
from ..lower.tmem_factor_kernels import Product
from .run import ALL, SHARE


def is_padded(kind: Kind, dtype: str) -> bool:
    return kind.container(dt.storage_bits(dtype)) != dt.storage_bits(dtype)


def product(kind: Kind, a: str, b: str, in_tmem: bool, **options) -> Product:
    """A product with four instructions' worth of K; a padded A goes to tensor memory by copies that decompress."""
    options["k"] = 4 * kind.k
    if is_padded(kind, a):
        return Padded(a, b, by_copy=in_tmem, **options)
    made = Padded if is_padded(kind, b) else Product
    return made(a, b, a_in_tmem=in_tmem, **options)


def entries() -> list[Product]:
    """The entries of the table: dense and weight-stationary, block-scaled for one CTA and for two, A in either memory."""
    dense = [product(kind, a, b, t, d=d, stationary=s)
             for (a, b, d), kind in KINDS.items() for s in (False, True) for t in (False, True)]  # fmt: skip
    scaled = [product(kind, a, b, t, sf=sf, block=block, m=128 * group, n=64 * group, group=group)
              for (a, b, sf, block), kind in SCALED_KINDS.items() for group in (1, 2) for t in (False, True)]  # fmt: skip
    return dense + scaled


def name(p: Product) -> str:
    in_tmem = p.a_in_tmem or (isinstance(p, Padded) and p.by_copy)
    given = [p.a, p.b, p.sf and f"{p.sf}x{p.block}", p.d, "ws" * p.stationary, "pair" * (p.group == 2), "tmem" * in_tmem]
    return "-".join(filter(None, given))


@pytest.mark.parametrize("p", [p for p in entries() if ALL or zlib.crc32(name(p).encode()) % SHARE == 0], ids=name)
def test_entry(p):
    check(p, ("random",))
