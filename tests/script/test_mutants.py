"""Mutated programs: each is refused at a place in its text, or accepted and printed back."""

import random
import re

import pytest
from programs import PROGRAMS, ours

from tirx_eq import ir
from tirx_eq.errors import TirxError
from tirx_eq.script import parse_source

TOKENS = re.compile(r"\s+|\w+|[^\w\s]")


def mutate(text, rng):
    """Change one line of a program: drop a character, replace or swap tokens, repeat another line."""
    lines = text.split("\n")
    first = next(i for i, line in enumerate(lines) if line.startswith("@"))
    place = rng.randrange(first, len(lines))
    tokens = TOKENS.findall(lines[place]) or [" "]
    words = TOKENS.findall(text)
    kind = rng.randrange(4)
    if kind == 0:
        tokens.pop(rng.randrange(len(tokens)))
    elif kind == 1:
        tokens[rng.randrange(len(tokens))] = rng.choice(words).replace("\n", " ")
    elif kind == 2:
        a, b = rng.randrange(len(tokens)), rng.randrange(len(tokens))
        tokens[a], tokens[b] = tokens[b], tokens[a]
    else:
        tokens = [lines[rng.randrange(first, len(lines))]]
    lines[place] = "".join(tokens)
    return "\n".join(lines)


@pytest.mark.parametrize("name", PROGRAMS)
def test_mutants(name):
    rng = random.Random(name)
    refused = 0
    for _ in range(40):
        text = mutate(ours(name), rng)
        try:
            functions = parse_source(text, "mutant.py")
        except TirxError as e:
            refused += 1
            assert e.span is not None and e.span.file == "mutant.py", text
            assert 1 <= e.span.line <= text.count("\n") + 1
            continue
        for func in functions.values():
            (again,) = parse_source(func.script()).values()
            assert ir.first_difference(func, again) is None, text
    assert refused > 5
