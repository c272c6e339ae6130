"""Arithmetic against exact integers and fractions, one operation at a time, edge values included."""

import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from tirx_eq.errors import ParseError
from tirx_eq.sim import Launch, simulate

rng = np.random.default_rng(6)
EDGES = [0, 1, 2, 3, 5, 31, 32, 33, 63, 64, 127, 128, 255, 0x7FFF, 0x8000, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF,
         0x7FFFFFFFFFFFFFFF, 0x8000000000000000, 0xFFFFFFFFFFFFFFFF]


def run(text, *inputs, registers="", out=np.uint64):
    """Execute ``text`` for every element: inputs are in %a, %b, %c, %e (.b64), the result is taken from %o (.b64)."""
    n = len(inputs[0])
    names = "abce"
    loads = "\n".join(f"add.u64 %q, %i{k}, %t; ld.global.b64 %{names[k]}, [%q];" for k in range(len(inputs)))
    params = ", ".join(f".param .u64 p{k}" for k in range(len(inputs)))
    source = f"""
.version 8.8
.target sm_100a
.address_size 64
.visible .entry k({params}, .param .u64 po) {{
    .reg .b64 %a, %b, %c, %e, %o, %q, %t; .reg .b64 %i<8>; .reg .b32 %r<8>; .reg .b16 %h<8>; .reg .pred %p<4>; .reg .f32 %f<8>;
    .reg .f64 %d<4>;
    {registers}
    mov.u32 %r7, %tid.x;
    mul.wide.u32 %t, %r7, 8;
    mov.b64 %o, 0;
    {''.join(f"ld.param.u64 %i{k}, [p{k}];" for k in range(len(inputs)))} ld.param.u64 %i7, [po];
    {loads}
    {text}
    add.u64 %q, %i7, %t; st.global.b64 [%q], %o;
    ret;
}}"""
    arrays = [np.array(v, np.uint64) for v in inputs]
    result = simulate(source, "k", Launch((1, 1, 1), (n, 1, 1)), [*arrays, np.zeros(n, np.uint64)])
    return result.raise_for_faults().arrays["po"].view(out)


def narrow(v, kind):
    bits = int(kind[1:])
    v &= (1 << bits) - 1
    return v - (1 << bits) if kind[0] == "s" and v >> (bits - 1) else v


def samples(count=3):
    n = 400
    values = [EDGES[i % len(EDGES)] for i in range(200)]
    values += [int(rng.integers(0, 1 << 63)) * 2 + int(rng.integers(0, 2)) for _ in range(n - 200)]
    return [[values[i] for i in rng.permutation(n)] for _ in range(count)]


def trunc_div(a, b):
    q = abs(a) // abs(b)
    return q if (a < 0) == (b < 0) else -q


def shifted(a, b, kind, left):
    bits = int(kind[1:])
    b &= 0xFFFFFFFF
    if left:
        return a << b if b < bits else 0
    return a >> min(b, bits - 1) if kind[0] == "s" else (a >> b if b < bits else 0)


def bfe(a, b, c, kind):
    bits = int(kind[1:])
    position, length = b & 0xFF, c & 0xFF
    u = a & ((1 << bits) - 1)
    field = (u >> position) & ((1 << length) - 1)
    if kind[0] == "u" or length == 0:
        return field
    sign = u >> min(position + length - 1, bits - 1) & 1
    for i in range(min(length, max(0, bits - position)), bits):
        field |= sign << i
    return field


INTEGER = {
    "add": lambda a, b, c, k: a + b, "sub": lambda a, b, c, k: a - b, "mul.lo": lambda a, b, c, k: a * b,
    "mul.hi": lambda a, b, c, k: (a * b) >> int(k[1:]), "mad.lo": lambda a, b, c, k: a * b + c,
    "mad.hi": lambda a, b, c, k: ((a * b) >> int(k[1:])) + c,
    "min": lambda a, b, c, k: min(a, b), "max": lambda a, b, c, k: max(a, b),
    "div": lambda a, b, c, k: trunc_div(a, b) if b else -1, "rem": lambda a, b, c, k: a - trunc_div(a, b) * b if b else a,
    "sad": lambda a, b, c, k: abs(a - b) + c,
}


@pytest.mark.parametrize("kind", ["s16", "u16", "s32", "u32", "s64", "u64"])
@pytest.mark.parametrize("op", INTEGER)
def test_integers(op, kind):
    a, b, c = samples()
    bits = int(kind[1:])
    three = op in ("mad.lo", "mad.hi", "sad")
    r = {16: "%h", 32: "%r", 64: "%c"}[bits]
    if bits == 64:
        text = f"{op}.{kind} %o, %a, %b{', %c' if three else ''};"
    else:
        text = f"cvt.u{bits}.u64 {r}0, %a; cvt.u{bits}.u64 {r}1, %b; cvt.u{bits}.u64 {r}2, %c; " \
               f"{op}.{kind} {r}3, {r}0, {r}1{f', {r}2' if three else ''}; cvt.u64.u{bits} %o, {r}3;"
    got = run(text, a, b, c)
    for x, y, z, value in zip(a, b, c, got.tolist()):
        expected = INTEGER[op](narrow(x, kind), narrow(y, kind), narrow(z, kind), kind)
        assert value == expected & ((1 << bits) - 1), (op, kind, x, y, z)


BITWISE = {
    "shl.b32": lambda a, b, c: shifted(a, b, "u32", True), "shr.u32": lambda a, b, c: shifted(a, b, "u32", False),
    "shr.s32": lambda a, b, c: shifted(narrow(a, "s32"), b, "s32", False),
    "bfe.u32": lambda a, b, c: bfe(a, b, c, "u32"), "bfe.s32": lambda a, b, c: bfe(a, b, c, "s32"),
    "lop3.b32:0xE8": lambda a, b, c: (a & b) | (a & c) | (b & c), "lop3.b32:0x96": lambda a, b, c: a ^ b ^ c,
    "shf.l.wrap.b32": lambda a, b, c: ((b << 32 | a) << (c & 31)) >> 32,
    "shf.r.clamp.b32": lambda a, b, c: (b << 32 | a) >> min(c, 32),
    "bmsk.clamp.b32": lambda a, b, c: ((1 << min(b, 32)) - 1) << min(a, 32),
    "mul24.lo.u32": lambda a, b, c: (a & 0xFFFFFF) * (b & 0xFFFFFF),
    "mul24.hi.s32": lambda a, b, c: (narrow(a, "s24") * narrow(b, "s24")) >> 16,
    "dp4a.s32.u32": lambda a, b, c: c + sum(narrow(a >> 8 * i, "s8") * (b >> 8 * i & 255) for i in range(4)),
    "dp2a.hi.u32.s32": lambda a, b, c: c + sum((a >> 16 * i & 0xFFFF) * narrow(b >> 8 * (i + 2), "s8") for i in range(2)),
    "szext.wrap.s32": lambda a, b, c: narrow(a, f"s{b & 31}") if b & 31 else 0,
    "prmt.b32": lambda a, b, c: sum(prmt_byte(a, b, c >> 4 * i & 15) << 8 * i for i in range(4)),
    "add.u16x2": lambda a, b, c: (a + b & 0xFFFF) | ((a >> 16) + (b >> 16) & 0xFFFF) << 16,
    "min.s16x2": lambda a, b, c: sum((min(narrow(a >> s, "s16"), narrow(b >> s, "s16")) & 0xFFFF) << s for s in (0, 16)),
}
TWO = {"shl.b32", "shr.u32", "shr.s32", "bmsk.clamp.b32", "mul24.lo.u32", "mul24.hi.s32", "szext.wrap.s32", "add.u16x2",
       "min.s16x2"}


def prmt_byte(a, b, selector):
    byte = (b << 32 | a) >> 8 * (selector & 7) & 255
    return (255 if byte >> 7 else 0) if selector & 8 else byte


@pytest.mark.parametrize("op", BITWISE)
def test_bits(op):
    a, b, c = samples()
    name, _, lut = op.partition(":")
    arguments = "%r0, %r1" if op in TWO else "%r0, %r1, %r2"
    text = "cvt.u32.u64 %r0, %a; cvt.u32.u64 %r1, %b; cvt.u32.u64 %r2, %c; " \
           f"{name} %r3, {arguments}{', ' + lut if lut else ''}; cvt.u64.u32 %o, %r3;"
    got = run(text, a, b, c)
    for x, y, z, value in zip(a, b, c, got.tolist()):
        x, y, z = (v & 0xFFFFFFFF for v in (x, y, z))
        assert value == BITWISE[op](x, y, z) & 0xFFFFFFFF, (op, hex(x), hex(y), hex(z))


def test_carries():
    a, b, c = samples()
    text = "mov.b64 {%r0, %r1}, %a; mov.b64 {%r2, %r3}, %b; add.cc.u32 %r4, %r0, %r2; addc.u32 %r5, %r1, %r3; " \
           "mov.b64 %o, {%r4, %r5};"
    assert run(text, a, b, c).tolist() == [(x + y) & (2**64 - 1) for x, y in zip(a, b)]
    text = text.replace("add.cc", "sub.cc").replace("addc", "subc")
    assert run(text, a, b, c).tolist() == [(x - y) & (2**64 - 1) for x, y in zip(a, b)]


# -- floating point --------------------------------------------------------------------------------------------------
def floats(n=400):
    special = [0.0, -0.0, 1.0, -1.0, 1.5, 3.4e38, -3.4e38, 1e-45, 1.2e-38, 1 / 3, 16777217.0, 65504.0, 1e-7]
    scale = 2.0 ** rng.integers(-40, 40, n)
    v = (rng.standard_normal(n) * scale).astype(np.float32)
    v[: len(special)] = special
    return v[rng.permutation(n)]


def round_fraction(value, mode, precision, lowest):
    """``value`` to ``precision`` bits, exponents from ``lowest``, as a Fraction."""
    if value == 0:
        return Fraction(0)
    exponent = max(math.floor(math.log2(abs(value))) if value else 0, lowest)
    while abs(value) >= Fraction(2) ** (exponent + 1):
        exponent += 1
    while abs(value) < Fraction(2) ** exponent and exponent > lowest:
        exponent -= 1
    unit = Fraction(2) ** (exponent - precision + 1)
    scaled = value / unit
    low = math.floor(scaled)
    rest = scaled - low
    if mode == "rn":
        up = rest > Fraction(1, 2) or (rest == Fraction(1, 2) and low & 1)
    else:
        up = rest > 0 and (mode == "rp" or (mode == "rz" and scaled < 0))
    return (low + (1 if up else 0)) * unit


@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
@pytest.mark.parametrize("op", ["add", "sub", "mul", "fma"])
def test_f32_rounding(op, mode):
    a, b, c = floats(), floats(), floats()
    last = ", %f2" if op == "fma" else ""
    text = "mov.b64 {%f0, %f4}, %a; mov.b64 {%f1, %f4}, %b; mov.b64 {%f2, %f4}, %c; " \
           f"{op}.{mode}.f32 %f3, %f0, %f1{last}; mov.b64 %o, {{%f3, 0}};"
    got = run(text, *(v.view(np.uint32) for v in (a, b, c)), out=np.uint64).astype(np.uint32).view(np.float32)
    exact = {"add": lambda x, y, z: x + y, "sub": lambda x, y, z: x - y, "mul": lambda x, y, z: x * y,
             "fma": lambda x, y, z: x * y + z}[op]
    for x, y, z, value in zip(a.tolist(), b.tolist(), c.tolist(), got.tolist()):
        expected = round_fraction(exact(Fraction(x), Fraction(y), Fraction(z)), mode, 24, -126)
        if abs(expected) <= Fraction(float(np.finfo(np.float32).max)):
            assert Fraction(value) == expected, (op, mode, x, y, z)


@pytest.mark.parametrize("kind,precision,lowest", [("f16", 11, -14), ("bf16", 8, -126)])
@pytest.mark.parametrize("op", ["add", "mul", "fma"])
def test_half_rounding(op, kind, precision, lowest):
    dtype = np.float16 if kind == "f16" else ml_dtypes.bfloat16
    v = [rng.standard_normal(400).astype(np.float32) * 2.0 ** rng.integers(-8, 5, 400) for _ in range(3)]
    v = [x.astype(dtype) for x in v]
    last = ", %h2" if op == "fma" else ""
    text = "cvt.u16.u64 %h0, %a; cvt.u16.u64 %h1, %b; cvt.u16.u64 %h2, %c; " \
           f"{op}.rn.{kind} %h3, %h0, %h1{last}; cvt.u64.u16 %o, %h3;"
    got = run(text, *(x.view(np.uint16) for x in v)).astype(np.uint16).view(dtype).astype(np.float64)
    exact = {"add": lambda x, y, z: x + y, "mul": lambda x, y, z: x * y, "fma": lambda x, y, z: x * y + z}[op]
    for x, y, z, value in zip(*(x.astype(np.float64).tolist() for x in v), got.tolist()):
        assert Fraction(value) == round_fraction(exact(Fraction(x), Fraction(y), Fraction(z)), "rn", precision, lowest)


def test_minimum_and_maximum_with_nan_and_zeros():
    a = np.array([np.nan, 1, np.nan, 0.0, -0.0, -3, np.inf], np.float32)
    b = np.array([2, np.nan, np.nan, -0.0, 0.0, 4, 1], np.float32)
    head = "mov.b64 {%f0, %f4}, %a; mov.b64 {%f1, %f4}, %b; "
    for op, expected in (("min", [2, 1, np.nan, -0.0, -0.0, -3, 1]), ("max", [2, 1, np.nan, 0.0, 0.0, 4, np.inf]),
                         ("min.NaN", [np.nan, np.nan, np.nan, -0.0, -0.0, -3, 1])):
        got = run(head + f"{op}.f32 %f3, %f0, %f1; mov.b64 %o, {{%f3, 0}};", a.view(np.uint32), b.view(np.uint32))
        values = got.astype(np.uint32).view(np.float32)
        np.testing.assert_array_equal(values, np.array(expected, np.float32))
        assert (np.signbit(values[3:5]) == np.signbit(np.array(expected[3:5]))).all()


@pytest.mark.parametrize("to", ["s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64"])
@pytest.mark.parametrize("mode", ["rni", "rzi", "rmi", "rpi"])
def test_float_to_integer(to, mode):
    a = np.concatenate([floats(300), np.array([0.5, 1.5, 2.5, -0.5, -1.5, np.inf, -np.inf, np.nan, 127.5, -129], np.float32)])
    bits = int(to[1:])
    register = {8: "%r3", 16: "%h3", 32: "%r3", 64: "%o"}[bits]
    back = {8: "cvt.u64.u8 %o, %r3;", 16: "cvt.u64.u16 %o, %h3;", 32: "cvt.u64.u32 %o, %r3;", 64: ""}[bits]
    got = run(f"mov.b64 {{%f0, %f4}}, %a; cvt.{mode}.{to}.f32 {register}, %f0; {back}", a.view(np.uint32))
    whole = {"rni": lambda v: round(v), "rzi": math.trunc, "rmi": math.floor, "rpi": math.ceil}[mode]
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if to[0] == "s" else (0, (1 << bits) - 1)
    for x, value in zip(a.tolist(), got.tolist()):
        expected = 0 if math.isnan(x) else high if x == math.inf else low if x == -math.inf else min(max(whole(x), low), high)
        assert value == expected & ((1 << bits) - 1), (to, mode, x)


@pytest.mark.parametrize("kind", ["e4m3", "e5m2", "e2m3", "e3m2", "e2m1"])
def test_narrow_conversions_round_to_nearest(kind):
    """Every result is the closest value of the format, ties to even, saturated."""
    dtype = {"e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2, "e2m3": ml_dtypes.float6_e2m3fn,
             "e3m2": ml_dtypes.float6_e3m2fn, "e2m1": ml_dtypes.float4_e2m1fn}[kind]
    a, b = ((rng.standard_normal(400) * 2.0 ** rng.integers(-6, 8, 400)).astype(np.float32) for _ in range(2))
    count = 1 << {"e2m1": 4, "e2m3": 6, "e3m2": 6}.get(kind, 8)
    every = np.arange(count, dtype=np.uint8).view(dtype).astype(np.float64)
    finite = [(v, i) for i, v in enumerate(every.tolist()) if math.isfinite(v)]
    if kind == "e2m1":
        text = f".reg .b8 %x; cvt.rn.satfinite.{kind}x2.f32 %x, %f0, %f1; mov.b32 %r3, {{%x, 0, 0, 0}}; cvt.u64.u32 %o, %r3;"
    else:
        text = f"cvt.rn.satfinite.{kind}x2.f32 %h3, %f0, %f1; cvt.u64.u16 %o, %h3;"
    registers, _, body = text.partition(";") if text.startswith(".reg") else ("", "", text)
    got = run("mov.b64 {%f0, %f4}, %a; mov.b64 {%f1, %f4}, %b; " + body, a.view(np.uint32), b.view(np.uint32),
              registers=registers + ";" if registers else "")
    width = 4 if kind == "e2m1" else 8
    for x, y, word in zip(a.tolist(), b.tolist(), got.tolist()):
        for value, code in ((y, word & ((1 << width) - 1)), (x, word >> width & ((1 << width) - 1))):
            best = min(abs(v - value) for v, _ in finite)
            close = [i for v, i in finite if abs(v - value) == best]
            assert code in close and (len(close) == 1 or code & 1 == 0 or every[code] == 0), (kind, value, code)


@pytest.mark.parametrize("function,exact,error", [
    ("ex2.approx.ftz", np.exp2, 2.0**-22), ("lg2.approx.ftz", np.log2, 2.0**-22), ("rcp.approx.ftz", lambda v: 1 / v, 2.0**-23),
    ("rsqrt.approx.ftz", lambda v: 1 / np.sqrt(v), 2.0**-22), ("sqrt.approx.ftz", np.sqrt, 2.0**-23),
    ("tanh.approx", np.tanh, 2.0**-11), ("sin.approx.ftz", np.sin, 2.0**-20), ("cos.approx.ftz", np.cos, 2.0**-20)])
def test_approximations_within_their_stated_error(function, exact, error):
    a = rng.uniform(0.01, 3, 400).astype(np.float32)
    got = run(f"mov.b64 {{%f0, %f4}}, %a; {function}.f32 %f3, %f0; mov.b64 %o, {{%f3, 0}};", a.view(np.uint32))
    values, right = got.astype(np.uint32).view(np.float32).astype(np.float64), exact(a.astype(np.float64))
    assert (np.abs(values - right) <= error * np.maximum(np.abs(right), 1)).all()


# -- stochastic rounding, out-of-bounds NaN, 128-bit atomics ------------------------------------------------
def bracket(value, kind):
    """The two numbers of a format around a positive value, by enumeration of all of them."""
    types = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2,
             "e3m2": ml_dtypes.float6_e3m2fn}
    count = {"f16": 1 << 16, "bf16": 1 << 16, "e3m2": 64}.get(kind, 256)
    codes = np.arange(count).astype(np.uint16 if count == 1 << 16 else np.uint8)
    with np.errstate(all="ignore"):
        every = codes.view(types[kind]).astype(np.float64)
    every = np.unique(np.abs(every[np.isfinite(every)]))
    at = min(int(np.searchsorted(every, value, side="right")) - 1, len(every) - 2)
    return float(every[at]), float(every[at + 1])


def rounded(value, kind, bits, count):
    """Away from zero if the position between the neighbours plus the random fraction reaches one."""
    low, high = bracket(abs(value), kind)
    away = Fraction(abs(value) - low) / Fraction(high - low) + Fraction(bits, 1 << count) >= 1
    return math.copysign(high if away else low, value)


@pytest.mark.parametrize("kind,count", [("f16", 13), ("bf16", 16)])
def test_stochastic_rounding_of_pairs(kind, count):
    values = np.concatenate([rng.normal(size=60), rng.normal(size=20) * 1e-6, [1.0, -2.0, 0.0, 1.5]]).astype(np.float32)
    other, random = values[::-1].copy(), rng.integers(0, 1 << 32, len(values))
    text = f"cvt.u32.u64 %r1, %a; cvt.u32.u64 %r2, %b; mov.b32 %f1, %r1; mov.b32 %f2, %r2; cvt.u32.u64 %r3, %c; " \
           f"cvt.rs.{kind}x2.f32 %r4, %f1, %f2, %r3; cvt.u64.u32 %o, %r4;"
    out = run(text, values.view(np.uint32), other.view(np.uint32), random).astype(np.uint32)
    dtype = np.float16 if kind == "f16" else ml_dtypes.bfloat16
    low, high = ((out >> s & 0xFFFF).astype(np.uint16).view(dtype).astype(np.float64) for s in (0, 16))
    for i, (a, b, bits) in enumerate(zip(values, other, random)):
        mask = (1 << count) - 1
        assert low[i] == rounded(float(b), kind, int(bits) & 0xFFFF & mask, count)
        assert high[i] == rounded(float(a), kind, int(bits) >> 16 & mask, count)


@pytest.mark.parametrize("kind,dtype", [("e4m3", ml_dtypes.float8_e4m3fn), ("e5m2", ml_dtypes.float8_e5m2),
                                        ("e3m2", ml_dtypes.float6_e3m2fn)])
def test_stochastic_rounding_of_four(kind, dtype):
    values = (rng.normal(size=80) * 2.0 ** rng.integers(-6, 3, 80)).astype(np.float32)
    random = rng.integers(0, 1 << 32, 80)
    text = "cvt.u32.u64 %r1, %a; mov.b32 %f1, %r1; neg.f32 %f2, %f1; mul.f32 %f3, %f1, 0f3f400000; neg.f32 %f4, %f3; " \
           f"cvt.u32.u64 %r3, %c; cvt.rs.satfinite.{kind}x4.f32 %r4, {{%f1, %f2, %f3, %f4}}, %r3; cvt.u64.u32 %o, %r4;"
    out = run(text, values.view(np.uint32), values.view(np.uint32), random).astype(np.uint32)
    got = np.ascontiguousarray(out).view(np.uint8).reshape(-1, 4).view(dtype).astype(np.float64)
    for i, (v, bits) in enumerate(zip(values, random)):
        halves = [int(bits) & 0xFFFF, int(f"{int(bits) & 0xFFFF:016b}"[::-1], 2), int(bits) >> 16,
                  int(f"{int(bits) >> 16:016b}"[::-1], 2)]
        third = float(np.float32(v) * np.float32(0.75))
        for j, value in enumerate((-third, third, -float(v), float(v))):
            assert got[i, j] == rounded(value, kind, halves[j], 16)


def test_random_bits_of_unknown_order_are_refused():
    with pytest.raises(ParseError, match="not public"):
        run("mov.b32 %f1, 0; cvt.rs.satfinite.e2m1x4.f32 %h1, {%f1, %f1, %f1, %f1}, %r1;", [0])


def test_fma_takes_what_is_outside_of_a_tensor_as_zero():
    outside, nan, two, three = 0x7FFF, 0x7E00, 0x4000, 0x4200
    a = [two, outside, two, outside, nan, two]
    b = [three, three, outside, outside, three, nan]
    text = "cvt.u16.u64 %h1, %a; cvt.u16.u64 %h2, %b; fma.rn{}.f16 %h3, %h1, %h2, %h1; cvt.u64.u16 %o, %h3;"
    got = run(text.format(".oob"), a, b).astype(np.uint16).view(np.float16)
    assert got[0] == 8 and (got[1:4] == 0).all() and np.isnan(got[4:]).all()
    assert np.isnan(run(text.format(""), a, b).astype(np.uint16).view(np.float16)[1:]).all()


def test_atomics_of_128_bits():
    source = """
.version 8.8
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 cell, .param .u64 out) {
    .reg .b64 %d<8>; .reg .b128 %w<4>; .reg .b32 %r<2>;
    ld.param.u64 %d0, [cell]; ld.param.u64 %d1, [out];
    mov.u32 %r0, %tid.x; mul.wide.u32 %d2, %r0, 16; add.u64 %d1, %d1, %d2;
    cvt.u64.u32 %d3, %r0; add.u64 %d4, %d3, 100; add.u64 %d5, %d3, 1; add.u64 %d6, %d3, 101;
    mov.b128 %w0, {%d3, %d4}; mov.b128 %w1, {%d5, %d6};
    atom.global.cas.b128 %w2, [%d0], %w0, %w1;
    mov.b128 {%d3, %d4}, %w2;
    st.global.v2.u64 [%d1], {%d3, %d4};
    atom.global.exch.b128 %w3, [%d0+16], %w1;
    ret;
}"""
    cell = np.array([0, 100, 7, 7], np.uint64)
    result = simulate(source, "k", Launch((1, 1, 1), (32, 1, 1)), [cell, np.zeros((32, 2), np.uint64)]).raise_for_faults()
    # every thread finds what it expects, since threads take turns in order
    np.testing.assert_array_equal(result.arrays["cell"], [32, 132, 32, 132])
    np.testing.assert_array_equal(result.arrays["out"], np.stack([np.arange(32), np.arange(32) + 100], axis=1))
