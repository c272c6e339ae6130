"""Mangled PTX gives an error with a place, or runs to faults within its budget: never a crash or a hang."""

import os
import random
import re
from pathlib import Path

import numpy as np

from tirx_eq.errors import TirxError
from tirx_eq.sim import Launch, TensorMap, simulate
from tirx_eq.sim.machine import find_entry
from tirx_eq.sim.text.parser import parse

DATA = Path(__file__).parent.parent / "data" / "ptx"
TEXTS = [t for t in (f.read_text() for f in [DATA / "gemm_min.ptx", *sorted((DATA / "nvcc").glob("*.ptx"))])
         if len(t) < 15000]
WORDS = ["{", "}", "[", "]", ";", ",", "@", "!", "-", "0xffffffffffffffffffff", "9" * 30, ".reg", "%r1", "%p1", "bra", "<",
         ">", "|", "mov.u32", ".b64", '"', "/*", ".shared", ".align 3", "1e400", "%tid.q", "nan", "\x00", "é",
         ".b8 x[99999999999]", ".reg .b32 %q<999999999>;"]
#: TIRX_EQ_FUZZ=10000 runs the long campaign.
COUNT = int(os.environ.get("TIRX_EQ_FUZZ", "150"))


def mangle(rnd):
    """One of six kinds of damage to a random module."""
    text = rnd.choice(TEXTS)
    lines = text.split("\n")
    kind = rnd.randrange(6)
    if kind == 0:
        return text[: rnd.randrange(len(text))]
    if kind == 1:
        for _ in range(rnd.randrange(1, 6)):
            at = rnd.randrange(len(text))
            text = text[:at] + rnd.choice(WORDS) + text[at + rnd.randrange(3) :]
        return text
    if kind in (2, 3):
        for _ in range(rnd.randrange(1, 4)):
            if kind == 2:
                a, b = rnd.randrange(len(lines)), rnd.randrange(len(lines))
                lines[a], lines[b] = lines[b], lines[a]
            else:
                del lines[rnd.randrange(len(lines))]
        return "\n".join(lines)
    found = list(re.finditer(r"\b\d+\b" if kind == 4 else r"%\w+", text))
    place = rnd.choice(found)
    new = str(rnd.choice([0, 1, -1, 7, 31, 33, 64, 1 << 20, 1 << 31, 1 << 40])) if kind == 4 else rnd.choice(found).group()
    return text[: place.start()] + new + text[place.end() :]


def launch_anyhow(text):
    function = find_entry(parse(text), None)
    arguments, maps = {"A": np.zeros((128, 64), np.float16)}, {}
    for parameter in function.params:
        if parameter.size == 128:
            maps[parameter.name] = TensorMap("A", "f16", (64, 128), (128,), (64, 128), swizzle="128B")
        else:
            arguments[parameter.name] = np.zeros(65536, np.uint8) if parameter.size == 8 else 1
    block = function.directives.get("reqntid") or function.directives.get("maxntid") or (32,)
    cluster = function.directives.get("reqnctapercluster") or (1,)
    return simulate(text, None, Launch(cluster, block, cluster, 32768), arguments, maps, max_steps=2000)


def test_mangled_modules():
    rnd = random.Random(20)
    outcomes = {"error": 0, "ran": 0}
    for _ in range(COUNT):
        text = mangle(rnd)
        try:
            result = launch_anyhow(text)
        except TirxError as error:
            assert str(error)
            outcomes["error"] += 1
        else:
            assert all(f.rule and str(f) for f in result.faults)
            outcomes["ran"] += 1
    assert min(outcomes.values()) > COUNT // 10


def test_endless_loop_uses_up_its_budget():
    source = ".version 8.7\n.target sm_100a\n.address_size 64\n.visible .entry k() {\nL: bra L;\n}"
    result = simulate(source, "k", Launch(), [], max_steps=10000)
    assert [f.kind for f in result.faults] == ["budget"]


def test_unknown_instruction_is_named_with_its_line():
    source = ".version 8.7\n.target sm_100a\n.address_size 64\n.visible .entry k() {\n  frobnicate.b32 1;\n}"
    try:
        simulate(source, "k", Launch(), [])
    except TirxError as error:
        assert "frobnicate.b32" in str(error) and error.span.line == 5
    else:
        raise AssertionError("accepted")
