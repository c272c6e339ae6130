"""Products of e2m1 with 8-bit floats: 16 elements fill 8 of every 16 bytes of shared memory, as a layout with gaps says."""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass

import numpy as np
import pytest

from tirx_eq.errors import LayoutError
from tirx_eq.ir import dtype as dt
from tirx_eq.layout import mma_padded_layout
from tirx_eq.lower.candidates import NoCandidate
from tirx_eq.lower.kernel import compile_function
from tirx_eq.lower.program import Box

from .cluster_kernels import barrier
from .kernels import kernel
from .test_cluster import agree
from .test_equation import lowered, mutants, verdict
from .test_run_tmem_factors import E4M3, E5M2, FP4, UE8M0, check
from .tmem_factor_kernels import Product

#: Swizzle -> its layout of rows of K elements in chunks of 16, in units of 4 bits; eighths of rows, 128ths of K, elements.
PADDED = {
    "128B": "ComposeLayout(SwizzleLayout(5, 3, 3), TileLayout(S[({0}, 8, {1}, 8, 16) : (2048, 256, {0} * 2048, 32, 1)]))",
    "none": "TileLayout(S[({0}, 8, {1} * 8, 16) : (2048, 32, {0} * 2048, 1)])",
}
#: What loads the operands with tensor copies instead: one thread, whose barrier counts their bytes in global memory.
BY_TENSOR_COPIES = (
    ("    mbar = pool.alloc((1,)", '    full = pool.alloc((1,), "uint64", align=8)\n    mbar = pool.alloc((1,)'),
    ("            Tx.ptx.fence.mbarrier_init()\n",
     "            Tx.ptx.mbarrier.init(full.ptr_to([0]), 1)\n            Tx.ptx.fence.mbarrier_init()\n"
     "            Tx.ptx.mbarrier.arrive.expect_tx(full.ptr_to([0]), {bytes})\n"),
    ("    Tx.cta.copy(B_s[:, :], ", "    if tid == 0:\n        Tx.copy_async(B_s[:, :], "),
    ("    Tx.cta.copy(A_s[:, :], ", "    if tid == 0:\n        Tx.copy_async(A_s[:, :], "),
    ("+ {n_cta}, :])", "+ {n_cta}, :], mbar=full.ptr_to([0]))"), ("+ {rows}, :])", "+ {rows}, :], mbar=full.ptr_to([0]))"),
    ("    tmem = Tx.decl_buffer(", "    Tx.ptx.mbarrier.try_wait(full.ptr_to([0]), 0)\n    tmem = Tx.decl_buffer("),
)  # fmt: skip


@dataclass(frozen=True)
class Padded(Product):
    """A product with K = 128 from shared memory, whose operands of 4 bits are padded; ``tma``: loaded by tensor copies.

    ``by_copy``: from there A goes to tensor memory.
    """

    k: int = 128
    a_in_tmem: bool = False
    mode: str = "128B"
    tma: bool = False
    by_copy: bool = False

    def text(self) -> str:
        text = super().text().replace("tid_in_wg\n", "tid_in_wg, SwizzleLayout, ComposeLayout\n", 1)
        for rows in {self.rows, self.n // self.group}:
            packed = f'mma_shared_layout("{FP4}", "128B", ({rows}, {self.k})))'
            text = text.replace(packed, PADDED[self.mode].format(rows // 8, self.k // 128) + ", align=1024)")
        text = re.sub(r"(pool\.alloc\(.*layout=mma_shared_layout\(.*\)\))\)\n", r"\1, align=1024)\n", text)
        if self.by_copy:
            text = text.replace("tmem[:, :], A_s[:, :]", "tmem[:, :], A_t[:, :]")
            copy = f"Tx.copy_async(A_t[:, :], A_s[:, :], cta_group={self.group})"
            text = text.replace("Tx.gemm_async(", f"{copy}\n                Tx.gemm_async(")
        n_cta = self.n // self.group
        moved = self.k * (self.rows * dt.bits(self.a) + n_cta * dt.bits(self.b)) // 8
        for old, new in BY_TENSOR_COPIES if self.tma else ():
            old, new = (t.format(bytes=moved, n_cta=n_cta, rows=self.rows) for t in (old, new))
            assert old in text or "mbar=full" in text, old
            text = text.replace(old, new, 1 if old.startswith("    tmem") else -1)
        return text


@pytest.mark.parametrize("p", [
    Padded(FP4, E4M3, sf=UE8M0), Padded(E5M2, FP4, sf=UE8M0), Padded(FP4, E5M2), Padded(FP4, FP4),
    Padded(FP4, E4M3, m=64, stationary=True), Padded(E4M3, FP4, m=256, group=2, sf=UE8M0), Padded(FP4, E4M3, mode="none"),
], ids=lambda p: f"{p.a}-{p.b}-{p.m}-{p.mode}{'-scaled' * bool(p.sf)}")  # fmt: skip
def test_product(p):
    check(p, ("late", "random"), assemble=p.a == FP4)


@pytest.mark.parametrize("p", [
    Padded(FP4, E4M3, sf=UE8M0, tma=True), Padded(E4M3, FP4, sf=UE8M0, tma=True), Padded(E5M2, FP4, tma=True),
    Padded(FP4, E4M3, sf=UE8M0, k=256, tma=True), Padded(FP4, E4M3, m=256, group=2, sf=UE8M0, tma=True),
    Padded(FP4, E5M2, m=64, stationary=True, tma=True),
], ids=lambda p: f"{p.a}-{p.b}-{p.m}x{p.k}{'-scaled' * bool(p.sf)}")  # fmt: skip
def test_product_of_tiles_that_tensor_copies_pad(p):
    check(p, ("late", "early", "random") if p.sf and p.k == 128 else ("early",), assemble=p.a == FP4)
    made = compile_function(p.function())
    maps = [q.tensor_map for q in made.launch.params if q.tensor_map is not None]
    assert [m.dtype == "u4_align16" for m in maps] == [t == FP4 for t in (p.b, p.a)]
    assert all(m.box[0] == 128 and m.codes()["tensorDataType"] == 14 for m in maps if m.dtype == "u4_align16")


def test_packed_elements_are_those_of_the_kinds_of_fp4_alone():
    with pytest.raises(NoCandidate, match=r"element .* of 'A' is at byte"):
        compile_function(Product(FP4, E4M3, k=256, a_in_tmem=False).function())


@pytest.mark.parametrize("p", [
    Padded(FP4, E4M3, sf=UE8M0, by_copy=True), Padded(FP4, E5M2, by_copy=True, tma=True), Padded(FP4, FP4, by_copy=True),
    Padded(FP4, E4M3, m=64, stationary=True, by_copy=True), Padded(FP4, E4M3, m=256, group=2, sf=UE8M0, by_copy=True, tma=True),
    Padded(FP4, E4M3, sf=UE8M0, mode="none", by_copy=True), Padded(FP4, E5M2, sf=UE8M0, by_copy=True),
    *(Padded(FP4, b, "float16", by_copy=True) for b in (E4M3, E5M2, FP4)),
    *(Padded(FP4, b, "float16", m=64, stationary=True, by_copy=True) for b in (E5M2, FP4)),
], ids=lambda p: f"{p.a}-{p.b}-{p.d}-{p.m}-{p.mode}{'-scaled' * bool(p.sf)}{'-tma' * p.tma}")  # fmt: skip
def test_a_goes_to_tensor_memory_by_a_copy_that_decompresses(p):
    check(p, ("late", "early", "random") if p.tma else ("late",), assemble=p.tma)
    made = compile_function(p.function())
    assert ".b8x16.b4x16_p64" in made.ptx and "TmemCopy" in [c.choice.chosen.node for c in made.calls]


@pytest.mark.parametrize("p", [
    Product(FP4, E4M3, k=256), Product(FP4, E5M2, k=256, sf=UE8M0), Product(FP4, E4M3, k=256, m=64, stationary=True),
    Product(FP4, E4M3, k=256, m=128, group=2),
], ids=lambda p: f"{p.a}-{p.b}-{p.m}{'-scaled' * bool(p.sf)}")  # fmt: skip
def test_a_in_tensor_memory_in_the_central_bits_of_bytes(p):
    """The bytes are stored as words: an element in bits 2 to 5 of each."""
    check(p, ("random",))


def test_a_that_is_packed_in_tensor_memory_is_not_that_of_the_kind():
    with pytest.raises(NoCandidate, match="is at lane 0, element 1 of the lane; the tensor core reads lane 0, element 2"):
        compile_function(Product(FP4, E4M3, k=256).function(("2 @ TCol", "1 @ TCol")))


def test_every_mutant_breaks_the_equation():
    choices, bodies, program, rest = lowered(Padded(FP4, E4M3, sf=UE8M0).function())
    choice = next(c for c in choices if c.context.op == "gemm_async")
    body = bodies[choice.context.index]
    assert verdict(choice, body, bodies, program, rest).status == "equal"
    for what, mutant in dict(reversed(list(mutants(body)))).items():
        assert verdict(choice, mutant, bodies, program, rest).status == "different", what


MODES = {
    "none": "TileLayout(S[({0}, {1}, 8, 16) : (256, {0} * 256, 32, 1)])",
    "128B": "ComposeLayout(SwizzleLayout(5, 3, 3), TileLayout(S[({0}, {1}, 8, 16) : (256, {0} * 256, 32, 1)]))",
    "128B_ATOM_32B": "ComposeLayout(SwizzleLayout(6, 2, 2), TileLayout(S[({0}, {1}, 8, 16) : (256, {0} * 256, 32, 1)]))",
    "64B": "ComposeLayout(SwizzleLayout(5, 2, 3), TileLayout(S[({0}, {1}, 8, 16) : (256, {0} * 256, 32, 1)]))",
    "packed": "TileLayout(S[({0}, {1} * 128) : ({1} * 128, 1)])",
}


def loaded(mode: str = "128B", rows: int = 16, columns: int = 128, source: str = "A[:, :]", shape=None, expected=None,
           copy: str = "Tx.copy_async(sh[:, :], {0}, mbar=bar.ptr_to([0]))", before: str = ""):  # fmt: skip
    """B = A by way of a padded tile that a tensor copy loads."""
    return kernel(
        f"""
tid = Tx.thread_id([128])
sh = Tx.alloc_shared(({rows}, {columns}), "{FP4}", layout={MODES[mode].format(rows, columns // 128)}, align=1024)
bar = Tx.alloc_shared((1,), "uint64")
{before}
if tid == 0:
    Tx.ptx.mbarrier.init(bar.ptr_to([0]), 1)
    Tx.ptx.fence.mbarrier_init()
    Tx.ptx.mbarrier.arrive.expect_tx(bar.ptr_to([0]), {expected or rows * columns // 2})
    {copy.format(source)}
Tx.cuda.cta_sync()
Tx.ptx.mbarrier.try_wait(bar.ptr_to([0]), 0)
Tx.cta.copy(B[0:{rows}, 0:{columns}], sh[:, :])
""",
        f'A: Tx.Buffer({shape or (rows, columns)}, "{FP4}"), B: Tx.Buffer(({rows}, {columns}), "{FP4}")',
    )


def codes(*shape: int) -> np.ndarray:
    return np.random.default_rng(2).integers(0, 16, shape, dtype=np.uint8).view(dt.numpy_dtype(FP4))


@pytest.mark.parametrize(
    ("mode", "columns"), [("none", 128), ("none", 256), ("128B", 128), ("128B", 256), ("128B_ATOM_32B", 256)]
)
def test_a_tensor_copy_pads(mode, columns):
    given = codes(16, columns)
    got, made = agree(loaded(mode, columns=columns), given, np.zeros_like(given))
    np.testing.assert_array_equal(got.view(np.uint8), given.view(np.uint8))
    (found,) = [q.tensor_map for q in made.launch.params if q.tensor_map is not None]
    assert (found.dtype, found.box, found.swizzle) == ("u4_align16", (128, 16), mode)
    assert made.ptx.count("cp.async.bulk.tensor.2d") == columns // 128
    assert found.box_bytes == 2 * found.transaction_bytes == 16 * 128


def test_a_part_of_the_array_is_loaded():
    given = codes(64, 384)
    func = loaded(source="A[24:40, 128:256]", shape=(64, 384))
    got, _ = agree(func, given, np.zeros((16, 128), given.dtype))
    np.testing.assert_array_equal(got.view(np.uint8), given[24:40, 128:256].view(np.uint8))


def test_packed_tiles_have_a_map_of_their_own():
    """Without gaps elements are 16U4_ALIGN8B, of any even number in a row, and stored as well as loaded."""
    given = codes(16, 128)
    got, made = agree(loaded("packed"), given, np.zeros_like(given))
    np.testing.assert_array_equal(got.view(np.uint8), given.view(np.uint8))
    (found,) = [q.tensor_map for q in made.launch.params if q.tensor_map is not None]
    assert found.dtype == "u4_align8" and found.box_bytes == found.transaction_bytes == 16 * 64


STORE = "Tx.copy_async(B[:, :], sh[:, :])\n    Tx.ptx.cp_async.bulk.commit_group()"
REFUSED = {
    "a store": ({"copy": STORE}, "8 bytes of padding after every 16 elements: such tiles are loaded only"),
    "a swizzle of 64 bytes": ({"mode": "64B"}, "u4_align16 has swizzles none, 128B, 128B_ATOM_32B, not 64B"),
    "from within 128 elements": (
        {"source": "A[:, 64:192]", "shape": (16, 256)}, "along the last dimension that is not a multiple of 128"),
    "of rows that are no multiple of 128": (
        {"source": "A[:, 0:128]", "shape": (16, 192)}, "extent 192 of dimension 0 is not a"),
    "of rows 80 bytes apart": (
        {"source": "V[:, :]", "shape": (16, 160),
         "before": f'V = Tx.decl_buffer((16, 128), "{FP4}", data=A.data, layout=TileLayout(S[(16, 128) : (160, 1)]))'},
        "stride 80 bytes of dimension 1 is not a multiple of 32"),
    "that overhangs with NaN": (
        {"copy": "Tx.copy_async(sh[:, :], {0}, mbar=bar.ptr_to([0]), oob='nan')"}, "needs a floating-point type"),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_a_tensor_copy_that_pads_is_refused(what):
    changes, why = REFUSED[what]
    with pytest.raises(NoCandidate) as caught:
        compile_function(loaded(**changes))
    reasons = [r.reason for rule in ("tma_load", "tma_store") for r in caught.value.rejected[f"copy_async/{rule}"]]
    assert any(why in reason for reason in reasons), reasons


def test_64_columns_have_no_box():
    layout = "ComposeLayout(SwizzleLayout(5, 3, 3), TileLayout(S[(16, 4, 16) : (256, 32, 1)]))"
    func = kernel(
        f"""
tid = Tx.thread_id([128])
sh = Tx.alloc_shared((16, 64), "{FP4}", layout={layout}, align=1024)
bar = Tx.alloc_shared((1,), "uint64")
if tid == 0:
    Tx.copy_async(sh[:, :], A[:, 0:64], mbar=bar.ptr_to([0]))
""",
        f'A: Tx.Buffer((16, 128), "{FP4}")',
    )
    with pytest.raises(NoCandidate, match="box extent 64 of dimension 0 is not 128, as u4_align16 needs"):
        compile_function(func)


def test_the_barrier_counts_what_was_read():
    """A program that expects the tile's bytes in shared memory waits for ever."""
    given = codes(16, 128)
    made = compile_function(loaded(expected=2048))
    found = made.simulate(given, np.zeros_like(given)).faults
    assert found and found[0].kind == "deadlock"


@pytest.mark.parametrize("change", ["map without gaps", "coordinate", "place"])
def test_every_mutant_of_a_padding_copy_breaks_the_equation(change):
    choices, bodies, program, rest = lowered(loaded(columns=256))
    choice = choices[0]
    body = bodies[choice.context.index]
    assert verdict(choice, body, bodies, program, rest).status == "equal"
    for k, node in enumerate(body):
        into, box, bar = node.operands
        assert isinstance(box, Box)
        changed = {
            "map without gaps": (into, dataclasses.replace(box, map=dataclasses.replace(box.map, dtype="u4_align8")), bar),
            "coordinate": (into, dataclasses.replace(box, coords=(box.coords[0] + 128, *box.coords[1:])), bar),
            "place": (dataclasses.replace(into, offset=into.offset + 128), box, bar),
        }[change]
        mutant = (*body[:k], dataclasses.replace(node, operands=changed), *body[k + 1 :])
        assert verdict(choice, mutant, bodies, program, rest).status == "different"


@pytest.mark.parametrize(("mode", "rows", "depth"), [("128B", 64, 128), ("128B", 128, 256), ("none", 64, 128)])
def test_the_padded_layout_by_name(mode, rows, depth):
    """Byte and half of an element are those of its row and column in 8-row atoms of 128 bytes, or of core matrices."""
    i, k = np.indices((rows, depth)).reshape(2, -1)
    byte = k // 128 * rows * 128 + i * 128 + k % 128 // 16 * 16
    if mode == "none":
        byte = k // 16 * rows * 16 + i * 16
    else:
        byte ^= byte >> 3 & 0x70
    place = mma_padded_layout(mode, (rows, depth)).evaluate(np.arange(rows * depth))["m"]
    np.testing.assert_array_equal(place, 2 * byte + k % 16)


def test_the_padded_layout_of_other_extents():
    with pytest.raises(LayoutError, match="K = 64 isn't a multiple of 128 elements"):
        mma_padded_layout("128B", (8, 64))
    with pytest.raises(LayoutError, match=r"needs at least \(rows, K\)"):
        mma_padded_layout("none", (64,))


def test_rows_outside_of_the_array_are_zero():
    layout = MODES["128B"].format(16, 1)
    func = kernel(
        f"""
bx = Tx.cta_id([2])
tid = Tx.thread_id([128])
sh = Tx.alloc_shared((16, 128), "{FP4}", layout={layout}, align=1024)
bar = Tx.alloc_shared((1,), "uint64")
if tid == 0:
    Tx.ptx.mbarrier.init(bar.ptr_to([0]), 1)
    Tx.ptx.fence.mbarrier_init()
    Tx.ptx.mbarrier.arrive.expect_tx(bar.ptr_to([0]), 1024)
    Tx.copy_async(sh[:, :], A[bx * 16 : bx * 16 + 16, :], mbar=bar.ptr_to([0]), oob="zero")
Tx.cuda.cta_sync()
Tx.ptx.mbarrier.try_wait(bar.ptr_to([0]), 0)
Tx.cta.copy(B[bx * 16 : bx * 16 + 16, :], sh[:, :])
""",
        f'A: Tx.Buffer((20, 128), "{FP4}"), B: Tx.Buffer((32, 128), "{FP4}")',
    )
    given = codes(20, 128)
    got, _ = agree(func, given, np.zeros((32, 128), given.dtype))
    np.testing.assert_array_equal(got.view(np.uint8), np.pad(given.view(np.uint8), ((0, 12), (0, 0))))


def test_one_padded_tile_for_all_ctas():
    """Each of two CTAs loads half of the rows for both: each one's barrier is told the bytes of both halves."""
    layout = MODES["128B"].format(16, 1)
    func = kernel(
        f"""
r = Tx.cta_id_in_cluster([2])
g = Tx.cluster_id([1])
tid = Tx.thread_id([128])
sh = Tx.alloc_shared((16, 128), "{FP4}", layout={layout}, align=1024)
bar = Tx.alloc_shared((1,), "uint64")
{barrier(1024)}
Tx.cuda.cluster_sync()
if tid == 0:
    Tx.copy_async(sh[r * 8 : r * 8 + 8, :], A[r * 8 : r * 8 + 8, :], mbar=bar.ptr_to([0]), cta_mask=3)
Tx.ptx.mbarrier.try_wait(bar.ptr_to([0]), 0)
Tx.cta.copy(B[r * 16 : r * 16 + 16, :], sh[:, :])
Tx.cuda.cluster_sync()
""",
        f'A: Tx.Buffer((16, 128), "{FP4}"), B: Tx.Buffer((32, 128), "{FP4}")',
    )
    given = codes(16, 128)
    got, made = agree(func, given, np.zeros((32, 128), given.dtype))
    np.testing.assert_array_equal(got.view(np.uint8), np.tile(given.view(np.uint8), (2, 1)))
    assert ".multicast::cluster" in made.ptx
