"""The corpus of small programs: they use every node, and printing and parsing are inverse on them."""

import pytest
from programs import PROGRAMS, ours

from tirx_eq import ir
from tirx_eq.ir import expr as expr_module
from tirx_eq.ir import stmt as stmt_module
from tirx_eq.ir.node import NODE_TYPES
from tirx_eq.script import parse_source


def parsed(name):
    return parse_source(ours(name), f"{name}.py")[name]


def node_types(root):
    """Names of the node types that occur in a function."""
    found = set()

    def go(value):
        if isinstance(value, (tuple, list)):
            for v in value:
                go(v)
        elif isinstance(value, dict):
            for k, v in value.items():
                go(k)
                go(v)
        elif hasattr(type(value), "field_names"):
            found.add(type(value).__name__)
            if not isinstance(value, ir.Buffer) or id(value) not in seen:
                seen.add(id(value))
                for name in type(value).field_names:
                    go(getattr(value, name))

    seen = set()
    go(root)
    return found


def test_every_statement_and_expression_node_is_used():
    assert len(PROGRAMS) >= 10
    used = set().union(*(node_types(parsed(n)) for n in PROGRAMS))
    wanted = {
        c.__name__
        for c in NODE_TYPES.values()
        if c.__module__ in (expr_module.__name__, stmt_module.__name__) and issubclass(c, (ir.Expr, ir.Stmt))
    }
    wanted |= {"TilePrimitiveCall", "LambdaExpr", "BufferRegion", "Buffer", "CommReducer", "ScopeIdDef", "ExecScope"}
    # Opaque stands for nodes of other systems; no source makes one
    assert wanted - {"Opaque"} - used == set()


@pytest.mark.parametrize("sugar", [True, False], ids=["sugar", "plain"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_parse_of_print_is_the_function(name, sugar):
    func = parsed(name)
    for prefix in ("T", "Tx", "lib"):
        text = func.script(syntax_sugar=sugar, extra_config={"tirx.prefix": prefix})
        again = parse_source(text)
        (other,) = again.values()
        assert ir.first_difference(func, other) is None, text
        assert other.script(syntax_sugar=sugar, extra_config={"tirx.prefix": prefix}) == text


@pytest.mark.parametrize("name", PROGRAMS)
def test_json_round_trip(name):
    func = parsed(name)
    assert ir.structural_equal(ir.load_json(ir.save_json(func)), func)


def test_different_programs_differ():
    funcs = [parsed(n).without_attr("global_symbol") for n in PROGRAMS]
    for i, a in enumerate(funcs):
        for b in funcs[:i]:
            assert not ir.structural_equal(a, b)
