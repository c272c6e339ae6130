"""Every kind of tcgen05.mma, data path and operand layout against numpy statements of the ISA's tables."""

import ml_dtypes
import numpy as np
import pytest

from tests.sim.tc_harness import absolute, descriptor, place, run
from tirx_eq.errors import SimulationError

rng = np.random.default_rng(11)
NUMPY = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2,
         "e2m3": ml_dtypes.float6_e2m3fn, "e3m2": ml_dtypes.float6_e3m2fn, "e2m1": ml_dtypes.float4_e2m1fn,
         "s8": np.int8, "u8": np.uint8, "tf32": np.float32}
CODE = {"f16": 0, "bf16": 1, "tf32": 2, "e4m3": 0, "e5m2": 1, "e2m3": 3, "e3m2": 4, "e2m1": 5, "u8": 0, "s8": 1}
DEPTH = {"f16": 16, "tf32": 8, "f8f6f4": 32, "i8": 32, "mxf8f6f4": 32, "mxf4": 64, "mxf4nvf4": 64}
D_CODE = {"f16": 0, "f32": 1, "s32": 2}


def values(rows, depth, kind):
    """Small numbers exact in ``kind``: (values as float64, bytes as they lie along K in shared memory)."""
    if kind in ("s8", "u8"):
        v = rng.integers(-7 if kind == "s8" else 0, 8, (rows, depth))
    elif kind in ("e2m1", "e2m3", "e3m2"):
        v = rng.choice([-4, -3, -2, -1, -0.5, 0, 0.5, 1, 1.5, 2, 3, 4], (rows, depth))
    else:
        v = rng.integers(-7, 8, (rows, depth))
    typed = v.astype(NUMPY[kind])
    codes = typed.view(np.uint8).reshape(rows, -1)
    return typed.astype(np.float64), codes


def padded(codes, bits):
    """16 elements of 6 or 4 bits in 16 bytes, rest padding."""
    rows, depth = codes.shape
    out = np.zeros((rows, depth), np.uint8)
    for r in range(rows):
        for g in range(0, depth, 16):
            word = sum(int(c) << (bits * i) for i, c in enumerate(codes[r, g : g + 16]))
            out[r, g : g + 2 * bits] = list(word.to_bytes(2 * bits, "little"))
    return out


def stored(codes, kind, element):
    """Bytes along K for one instruction (32 bytes a row)."""
    if kind in ("mxf4", "mxf4nvf4"):
        return codes[:, 0::2] | codes[:, 1::2] << 4
    if element in ("e2m3", "e3m2"):
        return padded(codes, 6)
    if element == "e2m1":
        return padded(codes, 4)
    return codes


def home(m, n, M, N, group=1, stationary=False):
    """(CTA, lane, column) of D[m, n]: data-path layouts A-G as the ISA tabulates them."""
    if group == 2 and M == 256:
        return m // 128, m % 128, n                                            # A
    if group == 2:
        return m // 64, m % 64 + (64 if n >= N // 2 else 0), n % (N // 2)      # B
    if M == 128:
        return 0, m, n                                                         # D
    if M == 64 and stationary:
        return 0, m + (64 if n >= N // 2 else 0), n % (N // 2)                 # E
    if M == 64:
        return 0, m % 16 + 32 * (m // 16), n                                   # F
    return 0, m + 32 * (n // (N // 4)), n % (N // 4)                           # G


def idesc(M, N, a="f16", b="f16", d="f32", ta=0, tb=0, na=0, nb=0, sat=0):
    return (sat << 3 | D_CODE[d] << 4 | CODE[a] << 7 | CODE[b] << 10 | na << 13 | nb << 14 | ta << 15 | tb << 16
            | N >> 3 << 17 | M >> 4 << 24)


def read_d(out, M, N, d, group=1, stationary=False, base=0):
    result = np.zeros((M, N))
    for m in range(M):
        for n in range(N):
            cta, lane, column = home(m, n, M, N, group, stationary)
            word = out[cta, lane, base + column]
            result[m, n] = {"f32": word.view(np.float32), "f16": np.uint16(word & 0xFFFF).view(np.float16),
                            "s32": word.view(np.int32)}[d]
    return result


def multiply(kind, M, N, a="f16", b=None, d="f32", mode_a=0, mode_b=0, ta=0, tb=0, na=0, nb=0, group=1, stationary=False,
             accumulate=False, scale=None, mask=None, policy="late", a_in_tmem=False, padding=0):
    """Run one MMA of the given form and compare every element of D."""
    b = b or a
    depth = DEPTH[kind]
    av, ac = values(M, depth, a)
    bv, bc = values(N, depth, b)
    images, descriptors = [np.zeros(0, np.uint8) for _ in range(group)], []
    for codes, element, mode, transposed, start in ((ac, a, mode_a, ta, 0), (bc, b, mode_b, tb, 32768)):
        per = len(codes) // group
        for cta in range(group):
            part = codes[per * cta : per * cta + per]
            matrix = stored(part, kind, element)
            if transposed:
                size = codes.shape[1] // depth
                matrix = np.ascontiguousarray(part.reshape(per, depth, size).swapaxes(0, 1)).reshape(depth, per * size)
            span = 16 * {0: 1, 6: 2, 4: 4, 2: 8}[mode]
            width = -(-matrix.shape[1] // span) * span
            matrix = np.pad(matrix, ((0, 0), (0, width - matrix.shape[1])))
            image, leading, stride = place(matrix, mode, not transposed, start)
            images[cta] = np.pad(images[cta], (0, max(0, len(image) - len(images[cta]))))
            images[cta][start : len(image)] |= image[start:]
        descriptors.append(descriptor(start, leading, stride, mode))
    start_d = rng.integers(-50, 50, (group, 128, 512)).astype(np.float32)
    tmem = start_d.view(np.uint32).copy()
    if d == "s32":
        tmem = start_d.astype(np.int32).view(np.uint32)
    if d == "f16":
        tmem = start_d.astype(np.float16).view(np.uint16).astype(np.uint32)
    first = "%x0"
    if a_in_tmem:
        contained = {"e2m1": ac << 2, "e2m3": ac, "e3m2": ac} if kind in ("f8f6f4", "mxf8f6f4") else {}
        rows = np.ascontiguousarray(contained.get(a, stored(ac, kind, a)) | padding).view(np.uint32)
        for m in range(M):
            cta, lane, _ = home(m, 0, M, N, group, stationary)
            tmem[cta, lane, 96 : 96 + rows.shape[1]] = rows[m]
            if group == 2 and M == 128:
                tmem[cta, lane + 64, 96 : 96 + rows.shape[1]] = rows[m]
        first = "[%r41]"
    word = idesc(M, N, a, b, d, ta, tb, na, nb)
    ws = ".ws" if stationary else ""
    extra = ""
    if mask is not None:
        extra = ", {" + ",".join(f"%y{3 + i}" for i in range(4 * group)) + "}"
    last = f", {scale}" if scale is not None else ""
    body = absolute(0, 1) + f"""
    add.u32 %r41, %r8, 96;
    tcgen05.mma{ws}.cta_group::{group}.kind::{kind} [%r8], {first}, %x1, %y2{extra}, {'%p5' if accumulate else '%p6'}{last};"""
    masks = [int(v) for v in np.packbits(mask, bitorder="little").view(np.uint32)] if mask is not None else []
    out = run(body, images, tmem, [*descriptors, word, *masks], group=group, policy=policy)
    expected = (-av if na else av) @ (-bv if nb else bv).T
    got = read_d(out, M, N, d, group, stationary)
    before = read_d(tmem, M, N, d, group, stationary)
    if accumulate:
        expected = expected + before * 2.0 ** -(scale or 0)
    if mask is not None:
        for m in range(M):
            for n in range(N):
                cta, lane, _ = home(m, n, M, N, group, stationary)
                if mask[128 * cta + lane]:
                    expected[m, n] = before[m, n]
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("kind,a,d", [("f16", "f16", "f32"), ("f16", "f16", "f16"), ("f16", "bf16", "f32"),
                                      ("tf32", "tf32", "f32"), ("f8f6f4", "e4m3", "f32"), ("f8f6f4", "e5m2", "f16"),
                                      ("i8", "s8", "s32"), ("i8", "u8", "s32")])
@pytest.mark.parametrize("M,N", [(128, 64), (64, 32)])
def test_kinds(kind, a, d, M, N):
    multiply(kind, M, N, a, d=d)


@pytest.mark.parametrize("a", ["e4m3", "e2m3", "e3m2", "e2m1"])
@pytest.mark.parametrize("b", ["e5m2", "e2m3", "e3m2", "e2m1"])
def test_mixed_narrow_types(a, b):
    multiply("f8f6f4", 128, 16, a, b)


@pytest.mark.parametrize("mode_a", [0, 6, 4, 2])
@pytest.mark.parametrize("mode_b", [0, 6, 4, 2])
def test_k_major_swizzles(mode_a, mode_b):
    multiply("f16", 128, 64, mode_a=mode_a, mode_b=mode_b)


@pytest.mark.parametrize("mode", [0, 6, 4, 2])
@pytest.mark.parametrize("kind,a", [("f16", "bf16"), ("f8f6f4", "e4m3"), ("i8", "s8")])
def test_mn_major(mode, kind, a):
    d = "s32" if kind == "i8" else "f32"
    multiply(kind, 128, 128, a, d=d, mode_a=mode, mode_b=mode, ta=1, tb=1)
    multiply(kind, 128, 128, a, d=d, mode_a=0, mode_b=mode, tb=1)


@pytest.mark.parametrize("M,N", [(32, 64), (64, 64), (128, 64), (32, 128), (64, 256)])
def test_weight_stationary(M, N):
    multiply("f16", M, N, stationary=True)
    multiply("i8", M, N, "s8", d="s32", stationary=True, accumulate=True)


@pytest.mark.parametrize("M,N", [(256, 64), (128, 64), (256, 128)])
@pytest.mark.parametrize("policy", ["late", "early"])
def test_pairs(M, N, policy):
    multiply("f16", M, N, mode_a=2, mode_b=2, group=2, policy=policy, accumulate=True)


@pytest.mark.parametrize("kind,a", [("f16", "f16"), ("f8f6f4", "e4m3"), ("tf32", "tf32"), ("i8", "u8"), ("f8f6f4", "e2m1"),
                                    ("f8f6f4", "e2m3"), ("f8f6f4", "e3m2")])
def test_a_in_tensor_memory(kind, a):
    d = "s32" if kind == "i8" else "f32"
    multiply(kind, 128, 32, a, d=d, a_in_tmem=True)
    multiply(kind, 64, 32, a, d=d, a_in_tmem=True)


@pytest.mark.parametrize("a,bit", [("e2m1", 1), ("e2m1", 64), ("e2m3", 64), ("e3m2", 128)])
def test_bytes_of_narrow_elements_in_tensor_memory_have_zeros_beside_them(a, bit):
    with pytest.raises(SimulationError, match=r"A in tensor memory: byte 0 of lane 0 is .* which has bits beside the"):
        multiply("f8f6f4", 128, 32, a, a_in_tmem=True, padding=np.uint8(bit))


def test_a_in_tensor_memory_of_a_pair():
    multiply("f16", 256, 32, group=2, a_in_tmem=True)
    multiply("f16", 128, 32, group=2, a_in_tmem=True)


def test_accumulation_scaling_negation_and_masks():
    multiply("f16", 128, 32, accumulate=True)
    multiply("f16", 128, 32, accumulate=True, scale=3)
    multiply("f16", 128, 32, na=1, accumulate=True)
    multiply("f8f6f4", 128, 32, "e4m3", na=1, nb=0)
    multiply("f16", 128, 32, mask=rng.integers(0, 2, 128).astype(bool))
    multiply("f16", 256, 32, group=2, mask=rng.integers(0, 2, 256).astype(bool))


def test_ashift_moves_rows_of_a_down():
    av, ac = values(128, 16, "f16")
    bv, bc = values(32, 16, "f16")
    image, leading, stride = place(bc, 0, True)
    tmem = np.zeros((1, 128, 512), np.uint32)
    tmem[0, :, 96:104] = ac.view(np.uint32)
    body = absolute(0) + """
    add.u32 %r41, %r8, 96;
    tcgen05.mma.cta_group::1.kind::f16.ashift [%r8], [%r41], %x0, %y1, %p6;"""
    out = run(body, [image], tmem, [descriptor(0, leading, stride, 0), idesc(128, 32)])
    shifted = np.concatenate([av[1:], av[-1:]])
    np.testing.assert_array_equal(read_d(out, 128, 32, "f32")[:-1], (shifted @ bv.T)[:-1])


def test_saturation_of_integers():
    image_a, la, sa = place(np.full((128, 32), 127, np.uint8), 0, True)
    image_b, lb, sb = place(np.full((16, 32), 127, np.uint8), 0, True, 32768)
    image = np.pad(image_a, (0, len(image_b) - len(image_a))) | image_b
    tmem = np.full((1, 128, 512), 0x7FFFFFF0, np.uint32)
    for sat, expected in ((1, 2**31 - 1), (0, 0x7FFFFFF0 + 32 * 127 * 127 - 2**32)):
        body = absolute(0, 1) + "\n    tcgen05.mma.cta_group::1.kind::i8 [%r8], %x0, %x1, %y2, %p5;"
        out = run(body, [image], tmem, [descriptor(0, la, sa, 0), descriptor(32768, lb, sb, 0),
                                        idesc(128, 16, "s8", "s8", "s32", sat=sat)])
        assert (read_d(out, 128, 16, "s32") == expected).all()


SCALED = [("mxf8f6f4", "", 32, "ue8m0", "e4m3", (0, 1, 2, 3)), ("mxf8f6f4", ".block32", 32, "ue8m0", "e2m1", (0,)),
          ("mxf4", ".scale_vec::2X", 32, "ue8m0", "e2m1", (0, 2)), ("mxf4nvf4", ".scale_vec::4X", 16, "ue4m3", "e2m1", (0,)),
          ("mxf4nvf4", ".block16", 16, "ue8m0", "e2m1", (0,)), ("mxf4nvf4", ".scale_vec::2X", 32, "ue8m0", "e2m1", (0, 2))]


@pytest.mark.parametrize("kind,vector,per,scale,element,ids", SCALED)
@pytest.mark.parametrize("group,M", [(1, 128), (2, 256)])
def test_block_scaling(kind, vector, per, scale, element, ids, group, M):
    N, depth = 64, DEPTH[kind]
    count = depth // per
    for identifier in ids:
        av, ac = values(M, depth, element)
        bv, bc = values(N, depth, element)
        codes = [rng.integers(120, 134, (rows, count)).astype(np.uint8) if scale == "ue8m0"
                 else rng.integers(40, 72, (rows, count)).astype(np.uint8) for rows in (M, N)]
        exact = [2.0 ** (c.astype(np.float64) - 127) if scale == "ue8m0" else c.view(NUMPY["e4m3"]).astype(np.float64)
                 for c in codes]
        images, descriptors = [np.zeros(65536, np.uint8) for _ in range(group)], []
        for c, start in ((ac, 0), (bc, 32768)):
            per_cta = len(c) // group
            for cta in range(group):
                part = stored(c[per_cta * cta : per_cta * cta + per_cta], kind, element)
                image, leading, stride = place(part, 0, True, start)
                images[cta][: len(image)] |= image
            descriptors.append(descriptor(start, leading, stride, 0))
        tmem = np.full((group, 128, 512), 0x55555555, np.uint32)
        bytes_ = tmem.view(np.uint8).reshape(group, 128, 512, 4)
        for cta in range(group):
            for r in range(128):
                for q in range(4):
                    bytes_[cta, r % 32 + 32 * q, 100 + r // 32, identifier : identifier + count] = codes[0][128 * cta + r]
            for r in range(N):
                for q in range(4):
                    bytes_[cta, r % 32 + 32 * q, 110 + r // 32, identifier : identifier + count] = codes[1][r]
        type_code = 1 if kind != "mxf8f6f4" else CODE[element]
        word = (identifier << 4 | type_code << 7 | type_code << 10 | N >> 3 << 17 | (scale == "ue8m0") << 23
                | M >> 7 << 27 | identifier << 29)
        body = absolute(0, 1) + f"""
    add.u32 %r41, %r8, 100;
    add.u32 %r42, %r8, 110;
    tcgen05.mma.cta_group::{group}.kind::{kind}.block_scale{vector} [%r8], %x0, %x1, %y2, [%r41], [%r42], %p6;"""
        out = run(body, images, tmem, [*descriptors, word], group=group)
        scaled = [np.repeat(s, per, axis=1) * v for s, v in zip(exact, (av, bv))]
        expected = (scaled[0] @ scaled[1].T).astype(np.float32)
        np.testing.assert_array_equal(read_d(out, M, N, "f32", group), expected)


@pytest.mark.parametrize("bit", [6, 23, 29])
def test_reserved_bits_are_refused(bit):
    body = absolute(0, 1) + "\n    tcgen05.mma.cta_group::1.kind::f16 [%r8], %x0, %x1, %y2, %p6;"
    value = descriptor(0, 128, 256, 0)
    result = run(body, None, None, [value, value, idesc(128, 64) | 1 << bit], faults=True)
    assert [f.kind for f in result.faults][:1] == ["descriptor"] and "reserved" in result.faults[0].message
