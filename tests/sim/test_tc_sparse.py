"""tcgen05.mma.sp in every kind and data path, against numpy statements of the ISA's metadata figures."""

import numpy as np
import pytest

from tests.sim.tc_harness import absolute, descriptor, frame, place, run
from tests.sim.test_tc_mma import CODE, D_CODE, DEPTH, NUMPY, home, stored, values
from tirx_eq.ptx import ptxas

rng = np.random.default_rng(17)
#: elements of a row per nibble, and the nibbles that have a meaning (PTX ISA 9.7.16.10.8.1-3)
CHUNK = {"tf32": 2, "mxf4": 8, "mxf4nvf4": 8}
PAIRS = [0b0100, 0b1000, 0b1100, 0b1001, 0b1101, 0b0110, 0b1110]


def words_of(codes, kind):
    """The metadata of 16n rows as 32-bit words, shape (16n lanes, words): the ISA's figures as a permutation of axes.

    f16, tf32: lane = (16 rows, half of K, 8 rows), word = (other half of the 16 rows, 4 chunks).  Otherwise row by row.
    """
    rows = len(codes)
    if kind in ("f16", "tf32"):
        codes = codes.reshape(rows // 16, 2, 8, 2, 4).transpose(0, 3, 2, 1, 4)
    nibbles = codes.reshape(rows, -1, 8).astype(np.uint32)
    return (nibbles << (4 * np.arange(8, dtype=np.uint32))).sum(axis=-1, dtype=np.uint32)


def full_rows(packed, codes, kind):
    """A with its zeros, one chunk after the other."""
    size = CHUNK.get(kind, 4)
    full = np.zeros((len(packed), 2 * packed.shape[1]))
    for m, row in enumerate(codes):
        for c, code in enumerate(row):
            kept = packed[m, c * size // 2 : (c + 1) * size // 2]
            low, high = code & 3, code >> 2
            if kind == "tf32":
                full[m, 2 * c + low // 2] = kept[0]
            elif size == 8:
                full[m, 8 * c + 2 * low : 8 * c + 2 * low + 2] = kept[:2]
                full[m, 8 * c + 2 * high : 8 * c + 2 * high + 2] = kept[2:]
            else:
                full[m, 4 * c + low], full[m, 4 * c + high] = kept
    return full


def where(m, n, M, N, group, stationary, high):
    """(CTA, lane, column) of D[m, n]; only a pair's M = 128 differs from the dense layouts: layout C, half of the lanes."""
    if group == 2 and M == 128:
        return m // 64, m % 64 % 16 + 32 * (m % 64 // 16) + high, n
    cta, lane, column = home(m, n, M, N, group, stationary)
    return cta, lane + high, column


def setup(kind, M, N, a, b, group, transposed=False):
    """Random packed A, B and metadata; their images in shared memory and descriptors."""
    packed, ac = values(M, DEPTH[kind], a)
    bv, bc = values(N, 2 * DEPTH[kind], b)
    chunks = 2 * DEPTH[kind] // CHUNK.get(kind, 4)
    codes = rng.choice([0b0100, 0b1110] if kind == "tf32" else PAIRS, (M, chunks))
    images, descriptors = [np.zeros(65536, np.uint8) for _ in range(group)], []
    for c, element, start in ((ac, a, 0), (bc, b, 32768)):
        per = len(c) // group
        for cta in range(group):
            part = c[per * cta : per * cta + per]
            matrix, k_major = stored(part, kind, element), True
            if transposed and start == 0:
                size = c.shape[1] // DEPTH[kind]
                matrix = np.ascontiguousarray(part.reshape(per, DEPTH[kind], size).swapaxes(0, 1)).reshape(DEPTH[kind], -1)
                k_major = False
            image, leading, stride = place(matrix, 0, k_major, start)
            images[cta][: len(image)] |= image
        descriptors.append(descriptor(start, leading, stride, 0))
    return packed, ac, bv, codes, images, descriptors


def put_metadata(tmem, codes, kind, group, M, stationary, high, column):
    """Store the metadata where the rows of A have their lanes; the weight-stationary form has a copy for each block of N."""
    rows = M // group
    for cta in range(group):
        words = words_of(codes[rows * cta : rows * cta + rows], kind)
        for lane in range(rows):
            if rows == 64 and not stationary:
                lanes = [lane % 16 + 32 * (lane // 16) + high]
            else:
                lanes = range(lane, 128, rows)
            for at in lanes:
                tmem[cta, at, column : column + words.shape[1]] = words[lane]


def multiply(kind, M, N, a, d="f32", group=1, stationary=False, high=0, selector=0, a_in_tmem=False, accumulate=False,
             transposed=False, mask=None, policy="late"):
    packed, ac, bv, codes, images, descriptors = setup(kind, M, N, a, a, group, transposed)
    start = rng.integers(-50, 50, (group, 128, 512))
    tmem = {"f32": start.astype(np.float32).view(np.uint32), "s32": start.astype(np.int32).view(np.uint32),
            "f16": start.astype(np.float16).view(np.uint16).astype(np.uint32)}[d].copy()
    before = tmem.copy()
    tmem[:, :, 100:102] = 0xFFFFFFFF
    put_metadata(tmem, codes, kind, group, M, stationary, high, 100 + selector)
    first = "%x0"
    if a_in_tmem:
        rows = stored(ac, kind, a).view(np.uint32)
        for m in range(M):
            cta, lane, _ = where(m, 0, M, N, group, stationary, high)
            for at in range(lane, 128, M) if stationary else [lane]:
                tmem[cta, at, 108 : 108 + rows.shape[1]] = rows[m]
        first = "[%r41]"
    word = (selector | 1 << 2 | D_CODE[d] << 4 | CODE[a] << 7 | CODE[a] << 10 | transposed << 15 | N >> 3 << 17
            | M >> 4 << 24)
    lanes = "" if mask is None else ", {" + ",".join(f"%y{3 + i}" for i in range(4 * group)) + "}"
    masks = [] if mask is None else [int(v) for v in np.packbits(mask, bitorder="little").view(np.uint32)]
    body = absolute(0, 1) + f"""
    add.u32 %r40, %r8, {high << 16};
    add.u32 %r41, %r40, 108;
    add.u32 %r42, %r40, 100;
    tcgen05.mma{'.ws' if stationary else ''}.sp.cta_group::{group}.kind::{kind} [%r40], {first}, %x1, [%r42], %y2{lanes}, \
{'%p5' if accumulate else '%p6'};"""
    out = run(body, images, tmem, [*descriptors, word, *masks], group=group, policy=policy)
    expected = full_rows(packed, codes, kind) @ bv.T
    for m in range(M):
        for n in range(N):
            cta, lane, column = where(m, n, M, N, group, stationary, high)
            view = {"f32": np.float32, "s32": np.int32}.get(d)
            got, old = (word[cta, lane, column].view(view) if view else np.uint16(word[cta, lane, column]).view(np.float16)
                        for word in (out, before))
            want = expected[m, n] + (old if accumulate else 0)
            if mask is not None and mask[128 * cta + lane]:
                want = old
            assert got == want, (m, n)


KINDS = [("f16", "f16", "f32"), ("f16", "f16", "f16"), ("f16", "bf16", "f32"), ("tf32", "tf32", "f32"),
         ("f8f6f4", "e4m3", "f32"), ("f8f6f4", "e2m1", "f32"), ("f8f6f4", "e2m3", "f16"), ("i8", "s8", "s32"),
         ("i8", "u8", "s32")]


@pytest.mark.parametrize("kind,a,d", KINDS)
def test_kinds(kind, a, d):
    multiply(kind, 128, 16, a, d, accumulate=True)


@pytest.mark.parametrize("kind,a,d", [("f16", "f16", "f32"), ("tf32", "tf32", "f32"), ("i8", "s8", "s32")])
def test_half_of_the_lanes(kind, a, d):
    """M = 64 (layout F) and M = 128 of a pair (layout C), in the lower or the upper 16 lanes of each quarter."""
    for high in (0, 16):
        multiply(kind, 64, 16, a, d, high=high)
        multiply(kind, 128, 32, a, d, group=2, high=high)


@pytest.mark.parametrize("kind,a,d", [("f16", "bf16", "f32"), ("tf32", "tf32", "f32"), ("f8f6f4", "e5m2", "f32")])
@pytest.mark.parametrize("policy", ["late", "early"])
def test_pairs(kind, a, d, policy):
    multiply(kind, 256, 32, a, d, group=2, policy=policy)


@pytest.mark.parametrize("M", [32, 64, 128])
@pytest.mark.parametrize("kind,a,d", [("f16", "f16", "f32"), ("tf32", "tf32", "f32"), ("i8", "u8", "s32")])
def test_weight_stationary(M, kind, a, d):
    multiply(kind, M, 64, a, d, stationary=True)


@pytest.mark.parametrize("kind,a", [("f16", "f16"), ("tf32", "tf32"), ("f8f6f4", "e4m3")])
def test_a_in_tensor_memory(kind, a):
    multiply(kind, 128, 16, a, a_in_tmem=True)
    multiply(kind, 64, 16, a, a_in_tmem=True, high=16)
    multiply(kind, 128, 32, a, a_in_tmem=True, group=2)
    multiply(kind, 64, 64, a, a_in_tmem=True, stationary=True)


def test_selector_transpose_and_masks():
    multiply("f16", 128, 16, "f16", selector=1)
    multiply("tf32", 128, 16, "tf32", selector=1)
    multiply("f16", 128, 16, "f16", transposed=True)
    multiply("i8", 128, 16, "s8", "s32", transposed=True)
    multiply("f16", 128, 16, "f16", mask=rng.integers(0, 2, 128).astype(bool))
    multiply("f16", 128, 32, "f16", group=2, mask=rng.integers(0, 2, 256).astype(bool))


def test_metadata_brought_by_cp():
    """As shipped kernels do: 128 elements of K per row of A, one tcgen05.cp.128x128b, and the column pair and selector of each
    of the four instructions."""
    packed, ac = values(128, 64, "f16")
    bv, bc = values(16, 128, "f16")
    codes = rng.choice(PAIRS, (128, 32))
    table = np.concatenate([words_of(codes[:, 8 * s : 8 * s + 8], "f16") for s in range(4)], axis=1)
    image = np.zeros(65536, np.uint8)
    images = [place(ac, 2, True), place(bc, 2, True, 32768), place(table.view(np.uint8), 0, True, 49152)]
    for part, _, _ in images:
        image[: len(part)] |= part
    params = [descriptor(start, leading, stride, mode)
              for (_, leading, stride), start, mode in zip(images, (0, 32768, 49152), (2, 2, 0))]
    body = absolute(0, 1, 2) + "\n    add.u32 %r41, %r8, 100;\n    tcgen05.cp.cta_group::1.128x128b [%r41], %x2;"
    for s in range(4):
        word = s % 2 | 1 << 2 | 1 << 4 | 16 >> 3 << 17 | 128 >> 4 << 24
        # B advances by 64 bytes a step inside of its 128-byte swizzle, then by one column of 8-row atoms
        at = 4 * (s % 2) + (16 * 128 >> 4) * (s // 2)
        body += f"""
    add.u64 %d21, %x0, {2 * s};
    add.u64 %d22, %x1, {at};
    add.u32 %r42, %r41, {s // 2 * 2};
    mov.b32 %r43, {word};
    tcgen05.mma.sp.cta_group::1.kind::f16 [%r8], %d21, %d22, [%r42], %r43, {'%p5' if s else '%p6'};"""
    out = run(body, [image], np.zeros((1, 128, 512), np.uint32), params)[0]
    np.testing.assert_array_equal(out[:, :16].view(np.float32), full_rows(packed, codes, "f16") @ bv.T)


@pytest.mark.parametrize("kind,vector,count,scale,element", [
    ("mxf8f6f4", "", 1, "ue8m0", "e4m3"), ("mxf8f6f4", ".block32", 1, "ue8m0", "e3m2"),
    ("mxf4", ".scale_vec::2X", 2, "ue8m0", "e2m1"), ("mxf4nvf4", ".scale_vec::4X", 4, "ue4m3", "e2m1"),
    ("mxf4nvf4", ".block32", 2, "ue8m0", "e2m1")])
@pytest.mark.parametrize("group,M", [(1, 128), (2, 256)])
def test_block_scaling(kind, vector, count, scale, element, group, M):
    """A factor covers K / count elements of the full row: twice as many as in the dense form."""
    N = 32
    packed, _, bv, codes, images, descriptors = setup(kind, M, N, element, element, group)
    factors = [rng.integers(120, 134, (rows, count)).astype(np.uint8) if scale == "ue8m0"
               else rng.integers(40, 72, (rows, count)).astype(np.uint8) for rows in (M, N)]
    tmem = np.full((group, 128, 512), 0x55555555, np.uint32)
    put_metadata(tmem, codes, kind, group, M, False, 0, 100)
    cells = tmem.view(np.uint8).reshape(group, 128, 512, 4)
    for cta in range(group):
        for q in range(4):
            for r in range(128):
                cells[cta, r % 32 + 32 * q, 104 + r // 32, :count] = factors[0][128 * cta + r]
            cells[cta, 32 * q : 32 * q + 32, 110, :count] = factors[1]
    code = 1 if kind != "mxf8f6f4" else CODE[element]
    word = 1 << 2 | code << 7 | code << 10 | N >> 3 << 17 | (scale == "ue8m0") << 23 | M >> 7 << 27
    body = absolute(0, 1) + f"""
    add.u32 %r41, %r8, 100;
    add.u32 %r42, %r8, 104;
    add.u32 %r43, %r8, 110;
    tcgen05.mma.sp.cta_group::{group}.kind::{kind}.block_scale{vector} [%r8], %x0, %x1, [%r41], %y2, [%r42], [%r43], %p6;"""
    out = run(body, images, tmem, [*descriptors, word], group=group)
    exact = [2.0 ** (f.astype(np.float64) - 127) if scale == "ue8m0" else f.view(NUMPY["e4m3"]).astype(np.float64)
             for f in factors]
    full = full_rows(packed, codes, kind)
    expected = (full * np.repeat(exact[0], full.shape[1] // count, 1)) @ (bv * np.repeat(exact[1], full.shape[1] // count, 1)).T
    np.testing.assert_array_equal(out.reshape(M, 512)[:, :N].view(np.float32), expected.astype(np.float32))


@pytest.mark.parametrize("code,message", [(0b0000, "no meaning"), (0b0101, "no meaning"), (0b1111, "no meaning")])
def test_meaningless_metadata_is_a_fault(code, message):
    *_, images, descriptors = setup("f16", 128, 16, "f16", "f16", 1)
    tmem = np.full((1, 128, 512), 0x44444444 & ~0xF | code, np.uint32)
    word = 1 << 2 | 1 << 4 | 16 >> 3 << 17 | 128 >> 4 << 24
    body = absolute(0, 1) + "\n    tcgen05.mma.sp.cta_group::1.kind::f16 [%r8], %x0, %x1, [%r8], %y2, %p6;"
    result = run(body, images, tmem, [*descriptors, word], faults=True)
    assert result.faults[0].kind == "descriptor" and message in result.faults[0].message


@pytest.mark.parametrize("kind,bits,offset,message", [
    ("f16", 1 << 2 | 2, 100, "selector 2"), ("f8f6f4", 1 << 2 | 1, 100, "must be 0"), ("f16", 0, 100, "bit 2"),
    ("f16", 1 << 2, 101, "even column"), ("f16", 1 << 2, 16 << 16 | 100, "must be the same")])
def test_misuse_is_a_fault(kind, bits, offset, message):
    *_, images, descriptors = setup(kind, 128, 16, "f16" if kind == "f16" else "e4m3", "f16" if kind == "f16" else "e4m3", 1)
    tmem = np.full((1, 128, 512), 0x44444444, np.uint32)
    word = bits | 1 << 4 | 16 >> 3 << 17 | 128 >> 4 << 24
    body = absolute(0, 1) + f"""
    add.u32 %r41, %r8, {offset};
    tcgen05.mma.sp.cta_group::1.kind::{kind} [%r8], %x0, %x1, [%r41], %y2, %p6;"""
    result = run(body, images, tmem, [*descriptors, word], faults=True)
    assert result.faults[0].kind == "descriptor" and message in result.faults[0].message


FORMS = [f"tcgen05.mma.sp.cta_group::{{group}}.kind::{kind} [%r8], {a}, %x1, [%r42], %y2, %p6;"
         for kind in ("f16", "tf32", "f8f6f4", "i8") for a in ("%x0", "[%r41]")]
FORMS += [f"tcgen05.mma.sp.cta_group::{{group}}.kind::{kind}.block_scale{size} [%r8], %x0, %x1, [%r42], %y2, [%r40], [%r41], "
          "%p6;"
          for kind, size in (("mxf8f6f4", ""), ("mxf4", ".scale_vec::2X"), ("mxf4nvf4", ".scale_vec::4X"))]
STATIONARY = [f"tcgen05.mma.ws.sp.cta_group::1.kind::{kind} [%r8], %x0, %x1, [%r42], %y2, %p6;" for kind in ("f16", "i8")]


@pytest.mark.skipif(ptxas.find_tool("ptxas") is None, reason="PTXAS IS NOT INSTALLED: nothing assembled")
@pytest.mark.parametrize("group,forms", [(1, FORMS + STATIONARY), (2, FORMS)])
def test_ptxas_takes_the_forms(group, forms):
    body = "mov.b32 %r40, 0; mov.b32 %r41, 0; mov.b32 %r42, 0; mov.b64 %x0, 0; mov.b64 %x1, 0; mov.b32 %y2, 0;\n"
    ptxas.assemble(frame(body + "\n".join(forms).format(group=group), group=group), "sm_100a")
