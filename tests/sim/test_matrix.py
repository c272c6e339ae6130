"""mma.sync in every shape, and moves of matrices by a warp, against the ISA's index formulas element by element."""

import numpy as np
import pytest

from tirx_eq.errors import ParseError, SimulationError
from tirx_eq.sim import Launch, simulate

rng = np.random.default_rng(29)


def run(text, inputs, out_words, shared=0, wide=False):
    """Each thread loads its row of every input (32-bit words, or 64-bit with ``wide``) into %a0.., %b0.., %c0..; what it leaves
    in %o0.. comes back, shape (32, out_words)."""
    bits, size, word = (64, 8, np.uint64) if wide else (32, 4, np.uint32)
    loads = ""
    for k, (name, array) in enumerate(inputs.items()):
        loads += f"    ld.param.u64 %q, [p{k}]; mad.wide.u32 %q, %t, {size * array.shape[1]}, %q;\n"
        loads += "".join(f"    ld.global.b{bits} %{name}{i}, [%q+{size * i}];\n" for i in range(array.shape[1]))
    stores = "".join(f"    st.global.b{bits} [%q+{size * i}], %o{i};\n" for i in range(out_words))
    box = f".shared .align 16 .b8 box[{shared}]; mov.u32 %s, box;" if shared else ""
    source = f"""
.version 8.8
.target sm_100a
.address_size 64
.visible .entry k({''.join(f'.param .u64 p{k}, ' for k in range(len(inputs)))}.param .u64 po) {{
    .reg .b64 %q; .reg .b32 %t, %s, %z<4>; .reg .b{bits} %a<8>, %b<8>, %c<8>, %o<8>;
    mov.u32 %t, %tid.x;
    {box}
{loads}{text}
    ld.param.u64 %q, [po]; mad.wide.u32 %q, %t, {size * out_words}, %q;
{stores}    ret;
}}"""
    arrays = [np.ascontiguousarray(v, word) for v in inputs.values()]
    result = simulate(source, "k", Launch((1, 1, 1), (32, 1, 1)), [*arrays, np.zeros((32, out_words), word)])
    return result.raise_for_faults().arrays["po"]


#: shape, type -> (elements of a thread's A and B, (row, column) of element i of A, row of element i of B): PTX ISA 9.7.14.5.
#: g = lane / 4, q = lane % 4.
BYTES_32 = (16, 8, lambda g, q, i: (g if i < 4 or 8 <= i < 12 else g + 8, q * 4 + (i & 3) + (16 if i >= 8 else 0)),
            lambda g, q, i: q * 4 + (i & 3) + (16 if i >= 4 else 0))
FORMULAS = {
    ("m16n8k8", "f16"): (4, 2, lambda g, q, i: (g if i < 2 else g + 8, q * 2 + (i & 1)), lambda g, q, i: q * 2 + i),
    ("m16n8k16", "f16"): (8, 4, lambda g, q, i: (g if i in (0, 1, 4, 5) else g + 8, q * 2 + (i & 1) + (8 if i >= 4 else 0)),
                          lambda g, q, i: q * 2 + (i & 1) + (8 if i >= 2 else 0)),
    ("m16n8k4", "tf32"): (2, 1, lambda g, q, i: (g if i == 0 else g + 8, q), lambda g, q, i: q),
    ("m16n8k8", "tf32"): (4, 2, lambda g, q, i: (g if i in (0, 2) else g + 8, q if i < 2 else q + 4),
                          lambda g, q, i: q if i == 0 else q + 4),
    ("m8n8k4", "f64"): (1, 1, lambda g, q, i: (g, q), lambda g, q, i: q),
    ("m16n8k8", "f64"): (4, 2, lambda g, q, i: (g if i in (0, 2) else g + 8, q if i < 2 else q + 4), lambda g, q, i: q + 4 * i),
    ("m16n8k16", "f64"): (8, 4, lambda g, q, i: (g if i % 2 == 0 else g + 8, i // 2 * 4 + q), lambda g, q, i: i * 4 + q),
    ("m8n8k16", "s8"): (4, 4, lambda g, q, i: (g, q * 4 + i), lambda g, q, i: q * 4 + i),
    ("m16n8k16", "u8"): (8, 4, lambda g, q, i: (g if i < 4 else g + 8, q * 4 + (i & 3)), lambda g, q, i: q * 4 + i),
    ("m16n8k32", "s8"): BYTES_32, ("m16n8k32", "e4m3"): BYTES_32,
    ("m8n8k32", "s4"): (8, 8, lambda g, q, i: (g, q * 8 + i), lambda g, q, i: q * 8 + i),
    ("m16n8k32", "u4"): (16, 8, lambda g, q, i: (g if i < 8 else g + 8, q * 8 + (i & 7)), lambda g, q, i: q * 8 + i),
    ("m16n8k64", "s4"): (32, 16, lambda g, q, i: (g if i < 8 or 16 <= i < 24 else g + 8,
                                                  q * 8 + (i & 7) + (32 if i >= 16 else 0)),
                         lambda g, q, i: q * 8 + (i & 7) + (32 if i >= 8 else 0)),
    ("m8n8k128", "b1"): (32, 32, lambda g, q, i: (g, q * 32 + i), lambda g, q, i: q * 32 + i),
    ("m16n8k256", "b1"): (128, 64, lambda g, q, i: (g if i < 32 or 64 <= i < 96 else g + 8,
                                                    q * 32 + i % 32 + (128 if i >= 64 else 0)),
                          lambda g, q, i: q * 32 + i % 32 + (128 if i >= 32 else 0)),
}
BITS = {"s32": 32, "f16": 16, "tf32": 32, "f64": 64, "s8": 8, "u8": 8, "e4m3": 8, "s4": 4, "u4": 4, "b1": 1}


def code(value, kind):
    """Bits of a small whole number in a format."""
    if kind == "f64":
        return int(np.float64(value).view(np.uint64))
    if kind == "tf32":
        return int(np.float32(value).view(np.uint32))
    if kind == "f16":
        return int(np.float16(value).view(np.uint16))
    if kind == "e4m3":
        import ml_dtypes
        return int(ml_dtypes.float8_e4m3fn(value).view(np.uint8))
    return int(value) & ((1 << BITS[kind]) - 1)


def registers(matrix, place, count, kind):
    """Each thread's elements, packed from the low end into registers."""
    width = 64 if kind == "f64" else 32
    per = width // BITS[kind]
    out = np.zeros((32, count // per), object)
    for lane in range(32):
        for i in range(count):
            value = matrix[place(lane // 4, lane % 4, i)]
            out[lane, i // per] |= code(value, kind) << (BITS[kind] * (i % per))
    return out


def numbers(rows, columns, kind):
    low, high = {"b1": (0, 2), "u4": (0, 16), "s4": (-8, 8), "u8": (0, 256), "s8": (-128, 128)}.get(kind, (-8, 9))
    return rng.integers(low, high, (rows, columns))


CASES = [(shape, kind, operation) for shape, kind in FORMULAS for operation in (("xor", "and") if kind == "b1" else ("",))]


@pytest.mark.parametrize("shape,kind,operation", CASES)
def test_products(shape, kind, operation):
    rows, depth = int(shape[1 : shape.index("n")]), int(shape.split("k")[1])
    a_count, b_count, a_place, b_row = FORMULAS[shape, kind]
    a, b = numbers(rows, depth, kind), numbers(depth, 8, kind)
    d = {"f64": "f64", "f16": "f32", "tf32": "f32", "e4m3": "f32"}.get(kind, "s32")
    c = rng.integers(-100, 100, (rows, 8))
    c_count = rows // 4
    c_place = lambda g, q, i: (g if i < 2 else g + 8, q * 2 + (i & 1))  # noqa: E731
    wide = kind == "f64"
    inputs = {"a": registers(a, a_place, a_count, kind), "b": registers(b, lambda g, q, i: (b_row(g, q, i), g), b_count, kind),
              "c": registers(c, c_place, c_count, {"f64": "f64", "f32": "tf32", "s32": "s32"}[d])}
    lists = {n: "{" + ",".join(f"%{n}{i}" for i in range(v.shape[1])) + "}" for n, v in inputs.items()}
    out = "{" + ",".join(f"%o{i}" for i in range(c_count)) + "}"
    tail = f".{operation}.popc" if operation else ""
    text = f"    mma.sync.aligned.{shape}.row.col.{d}.{kind}.{kind}.{d}{tail} {out}, {lists['a']}, {lists['b']}, {lists['c']};"
    got = run(text, {n: v.astype(np.uint64 if wide else np.uint32) for n, v in inputs.items()}, c_count, wide=wide)
    if operation == "xor":
        expected = (a[:, :, None] ^ b[None]).sum(axis=1) + c
    else:
        expected = a @ b + c
    view = got.view({"f64": np.float64, "f32": np.float32, "s32": np.int32}[d])
    for lane in range(32):
        for i in range(c_count):
            assert view[lane, i] == expected[c_place(lane // 4, lane % 4, i)]


def test_products_saturate_on_request():
    a = np.full((32, 4), 0x7F7F7F7F)
    c = np.full((32, 4), 0x7FFFFFF0)
    for word, expected in (("satfinite.", 2**31 - 1), ("", 0x7FFFFFF0 + 32 * 127 * 127 - 2**32)):
        text = f"    mma.sync.aligned.m16n8k32.row.col.{word}s32.s8.s8.s32 {{%o0,%o1,%o2,%o3}}, {{%a0,%a1,%a2,%a3}}, " \
               "{%b0,%b1}, {%c0,%c1,%c2,%c3};"
        assert (run(text, {"a": a, "b": a[:, :2], "c": c}, 4).view(np.int32) == expected).all()


# -- moves ---------------------------------------------------------------------------------------------
def with_image(image, body):
    """Text that stores ``image`` (32 rows of 16 bytes, in %a0..%a3 of each thread) to shared memory, one row a thread."""
    return f"""
    shl.b32 %z0, %t, 4; add.u32 %z0, %z0, %s;
    st.shared.v4.b32 [%z0], {{%a0, %a1, %a2, %a3}};
    bar.warp.sync 0xffffffff;
    {body}"""


IMAGE = rng.integers(0, 256, (32, 16)).astype(np.uint8)


def load(mnemonic, count):
    out = "{" + ",".join(f"%o{i}" for i in range(count)) + "}"
    text = with_image(IMAGE, f"{mnemonic} {out}, [%z0];")
    return run(text, {"a": IMAGE.view(np.uint32)}, count, 512).view(np.uint8).reshape(32, count, 4)


@pytest.mark.parametrize("count", [1, 2])
def test_16x16_bytes_transposed(count):
    """ISA figure 105: a thread has four consecutive rows of memory, of two columns."""
    got = load(f"ldmatrix.sync.aligned.m16n16.x{count}.trans.shared.b8", 2 * count)
    for lane in range(32):
        for m in range(count):
            for r in range(2):
                for j in range(4):
                    assert got[lane, 2 * m + r, j] == IMAGE[16 * m + 4 * (lane % 4) + j, lane // 4 + 8 * r]


@pytest.mark.parametrize("form,bits", [("b6x16_p32", 6), ("b4x16_p64", 4)])
def test_padded_elements_become_bytes(form, bits):
    fields = [[int.from_bytes(row.tobytes(), "little") >> (bits * i) & ((1 << bits) - 1) for i in range(16)] for row in IMAGE]
    for count in (1, 2, 4):
        got = load(f"ldmatrix.sync.aligned.m8n16.x{count}.shared.b8x16.{form}", count)
        for lane in range(32):
            for m in range(count):
                start = 4 * (lane % 4)
                assert got[lane, m].tolist() == fields[8 * m + lane // 4][start : start + 4]
    got = load(f"ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8x16.{form}", 2)
    for lane in range(32):
        for r in range(2):
            assert got[lane, r].tolist() == [fields[4 * (lane % 4) + j][lane // 4 + 8 * r] for j in range(4)]


@pytest.mark.parametrize("trans", [False, True])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_8x8_half_words_there_and_back(trans, count):
    word = ".trans" if trans else ""
    got = load(f"ldmatrix.sync.aligned.m8n8.x{count}{word}.shared.b16", count).view(np.uint16)
    halves = IMAGE.view(np.uint16).reshape(4, 8, 8)
    for lane in range(32):
        for m in range(count):
            for j in range(2):
                row, column = lane // 4, 2 * (lane % 4) + j
                assert got[lane, m, j] == (halves[m, column, row] if trans else halves[m, row, column])
    registers = "{" + ",".join(f"%o{i}" for i in range(count)) + "}"
    body = f"""ldmatrix.sync.aligned.m8n8.x{count}{word}.shared.b16 {registers}, [%z0];
    add.u32 %z1, %z0, 512; stmatrix.sync.aligned.m8n8.x{count}{word}.shared.b16 [%z1], {registers}; bar.warp.sync 0xffffffff;
    setp.lt.u32 %p, %t, {8 * count}; mov.b32 %o0, 0; mov.b32 %o1, 0; mov.b32 %o2, 0; mov.b32 %o3, 0;
    @%p ld.shared.v4.b32 {{%o0, %o1, %o2, %o3}}, [%z1];"""
    again = run(".reg .pred %p;" + with_image(IMAGE, body), {"a": IMAGE.view(np.uint32)}, 4, 1024)
    assert np.array_equal(again[: 8 * count].view(np.uint8), IMAGE[: 8 * count])


@pytest.mark.parametrize("count", [1, 2, 4])
def test_16x8_bytes_are_stored_transposed(count):
    """ISA figure 108: the places of an accumulator; column n of the matrix becomes the row that lane n addresses."""
    values = rng.integers(0, 256, (32, count, 4)).astype(np.uint8)
    registers = "{" + ",".join(f"%a{i}" for i in range(count)) + "}"
    body = f"""
    .reg .pred %p;
    shl.b32 %z0, %t, 4; add.u32 %z0, %z0, %s;
    stmatrix.sync.aligned.m16n8.x{count}.trans.shared.b8 [%z0], {registers};
    bar.warp.sync 0xffffffff; setp.lt.u32 %p, %t, {8 * count};
    mov.b32 %o0, 0; mov.b32 %o1, 0; mov.b32 %o2, 0; mov.b32 %o3, 0;
    @%p ld.shared.v4.b32 {{%o0, %o1, %o2, %o3}}, [%z0];"""
    got = run(body, {"a": values.reshape(32, -1).view(np.uint32)}, 4, 512).view(np.uint8)
    for lane in range(32):
        for m in range(count):
            for e in range(4):
                row, column = lane // 4 + 8 * (e // 2), 2 * (lane % 4) + e % 2
                assert got[8 * m + column, row] == values[lane, m, e]


@pytest.mark.parametrize("text,word", [
    ("ldmatrix.sync.aligned.m16n16.x4.trans.shared.b8 {%o0,%o1,%o2,%o3,%a0,%a1,%a2,%a3}, [%s];", "x1 and .x2"),
    ("ldmatrix.sync.aligned.m16n8.x1.trans.shared.b8 {%o0}, [%s];", "no ldmatrix"),
    ("mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32 {%o0,%o1}, {%a0,%a1}, {%b0,%b1}, {%o0,%o1};", "m16n8k8")])
def test_what_does_not_exist_is_refused(text, word):
    with pytest.raises(ParseError, match=word):
        run(text, {"a": np.zeros((32, 4))}, 4, 512)


def missing_barrier(body, count):
    """The kind of fault when a warp writes and reads a tile without a barrier, though each row's address is one lane's."""
    with pytest.raises(SimulationError, match="race"):
        run(body.replace("bar.warp.sync 0xffffffff;", ""), {"a": IMAGE.view(np.uint32)}, count, 1024)


@pytest.mark.parametrize("form,count", [
    ("m8n8.x4.shared.b16", 4), ("m8n8.x4.trans.shared.b16", 4), ("m16n16.x2.trans.shared.b8", 4),
    ("m8n16.x4.shared.b8x16.b6x16_p32", 4)])
def test_the_lanes_that_get_the_data_read(form, count):
    registers = "{" + ",".join(f"%o{i}" for i in range(count)) + "}"
    missing_barrier(with_image(IMAGE, f"ldmatrix.sync.aligned.{form} {registers}, [%z0];"), count)


@pytest.mark.parametrize("form,count", [("m8n8.x4.shared.b16", 4), ("m8n8.x4.trans.shared.b16", 4),
                                        ("m16n8.x4.trans.shared.b8", 4)])
def test_the_lanes_that_have_the_data_write(form, count):
    registers = "{" + ",".join(f"%a{i}" for i in range(count)) + "}"
    missing_barrier(f"""
    shl.b32 %z0, %t, 4; add.u32 %z0, %z0, %s;
    stmatrix.sync.aligned.{form} [%z0], {registers};
    bar.warp.sync 0xffffffff;
    ld.shared.v4.b32 {{%o0, %o1, %o2, %o3}}, [%z0];""", 4)
