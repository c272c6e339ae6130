"""``tirx-eq run``: source to PTX to numbers, compared with the interpreter."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tirx_eq as te
from tirx_eq.cli.app import main
from tirx_eq.cli.run import execute
from tirx_eq.errors import SimulationError
from tirx_eq.script import load_file
from tirx_eq.script import tirx as T

EXAMPLES = Path(__file__).parents[2] / "examples"


def command(monkeypatch, capsys, *arguments):
    """Exit code and output of the command line."""
    monkeypatch.setattr("sys.argv", ["tirx-eq", *map(str, arguments)])
    with pytest.raises(SystemExit) as stop:
        main()
    return stop.value.code, capsys.readouterr()


def test_the_kernel_runs_on_arrays():
    kernel = te.compile(load_file(EXAMPLES / "scale.py")["scale"])
    a = np.arange(1024, dtype=np.float32)
    result = kernel.simulate(a, np.zeros_like(a), policy="early").raise_for_faults()
    assert np.array_equal(result.arrays["B"], a * 2) and np.array_equal(result.arrays["A"], a)
    with pytest.raises(SimulationError, match=r"scale takes 2 arguments \(A, B\), got 1"):
        kernel.simulate(a)


@pytest.mark.parametrize("policy", ["late", "early", "random"])
def test_the_single_tile_product_agrees(policy):
    func = load_file(EXAMPLES / "gemm_single_tile.py")["gemm"]
    outcome = execute(func, seed=3, policy=policy)
    assert outcome.good and outcome.exact and not outcome.faults
    assert [(c.name, c.changed) for c in outcome.comparisons] == [("A", False), ("B", False), ("D", True)]


def test_random_inputs_are_within_the_bound():
    outcome = execute(load_file(EXAMPLES / "gemm_single_tile.py")["gemm"], kind="random")
    assert outcome.good and not outcome.exact
    assert all(c.error <= c.bound for c in outcome.comparisons)


def test_command_line(monkeypatch, capsys):
    code, out = command(monkeypatch, capsys, "run", f"{EXAMPLES / 'scale.py'}:scale", "--seed", 4)
    assert code == 0 and "agrees" in out.out and "scale on integers" in out.out


def test_json(monkeypatch, capsys, tmp_path):
    trace = tmp_path / "trace.json"
    code, out = command(monkeypatch, capsys, "run", EXAMPLES / "scale.py", "--json", "--random", "--trace", trace)
    data = json.loads(out.out)
    assert code == 0 and data["agrees"] and data["kernel"] == "scale" and data["inputs"] == "random"
    assert [(b["name"], b["written"], b["different"]) for b in data["buffers"]] == [("A", False, 0), ("B", True, 0)]
    assert isinstance(json.loads(trace.read_text()), (dict, list))


def test_wrong_numbers_are_a_failure(monkeypatch, capsys, tmp_path):
    kernel = te.compile(load_file(EXAMPLES / "scale.py")["scale"])
    assert kernel.ptx.count("0f40000000") == 1
    path = tmp_path / "other.ptx"
    path.write_text(kernel.ptx.replace("0f40000000", "0f40400000"))  # 3 instead of 2
    code, out = command(monkeypatch, capsys, "run", EXAMPLES / "scale.py", "--ptx", path)
    assert code == 1 and "elements differ" in out.out and "difference: B[" in out.out


def test_faults_are_a_failure(monkeypatch, capsys, tmp_path):
    func = EXAMPLES / "gemm_single_tile.py"
    kernel = te.compile(load_file(func)["gemm"])
    lines = [line for line in kernel.ptx.splitlines() if "tcgen05.wait::ld" not in line]
    assert len(lines) < len(kernel.ptx.splitlines())
    path = tmp_path / "other.ptx"
    path.write_text("\n".join(lines))
    code, out = command(monkeypatch, capsys, "run", func, "--ptx", path, "--json")
    data = json.loads(out.out)
    assert code == 1 and not data["agrees"]
    assert "tcgen05-wait" in {f["kind"] for f in data["faults"]}


def test_mistakes_of_the_user(monkeypatch, capsys, tmp_path):
    code, out = command(monkeypatch, capsys, "run", EXAMPLES / "scale.py", "--policy", "sometimes")
    assert code == 2 and "--policy must be one of late, early, random" in out.err
    code, out = command(monkeypatch, capsys, "run", EXAMPLES / "scale.py", "--ptx", tmp_path / "none.ptx")
    assert code == 2 and "can't read" in out.err
    code, out = command(monkeypatch, capsys, "run", EXAMPLES / "scale.py", "--size", "n")
    assert code == 2 and "--size takes NAME=VALUE" in out.err


def test_kernels_that_read_what_was_never_written_are_refused():
    from tirx_eq.interp import UndefinedRead

    @T.prim_func
    def kernel(B: T.Buffer((32,), "float32")):
        T.device_entry()
        t = T.thread_id([32])
        s = T.alloc_shared((32,), "float32")
        B[t] = s[t]

    with pytest.raises(UndefinedRead, match=r"'s\[0\]' was never written"):
        execute(kernel)


def test_the_interpreter_shares_nothing_with_the_lowering():
    text = """
import sys
from tirx_eq.script import load_file
from tirx_eq.interp import generate_inputs, interpret
func = load_file(sys.argv[1])["gemm"]
interpret(func, *generate_inputs(func))
loaded = [m for m in sys.modules if m.startswith(("tirx_eq.lower", "tirx_eq.ptx", "tirx_eq.egraph", "tirx_eq.sim"))]
assert not loaded, loaded
"""
    command = [sys.executable, "-c", text, str(EXAMPLES / "gemm_single_tile.py")]
    done = subprocess.run(command, cwd=EXAMPLES.parent, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_arguments_as_they_stand_in_memory():
    import ml_dtypes

    from tirx_eq.ptx.tensormap import TensorMap
    from tirx_eq.sim.kernel import packed, tensor_map, unpacked

    a = np.array([[0, 0.5, 1], [1.5, -2, 6]], np.float32).astype(ml_dtypes.float4_e2m1fn)
    raw = packed(a)
    assert raw.tolist() == [0x10, 0x32, 0x7C]
    assert np.array_equal(unpacked(raw, a).view(np.uint8), a.view(np.uint8))
    whole = np.ones(3, np.float32)
    assert packed(whole) is whole and packed(3) == 3
    found = tensor_map(TensorMap("A", "f16", (128, 8), (256,), (32, 8), "64B", offset=16, oob_fill="nan"))
    assert (found.array, found.element_type, found.box_shape, found.swizzle) == ("A", "f16", (32, 8), "64B")
    assert (found.global_strides_bytes, found.offset_bytes, found.oob_fill) == ((256,), 16, "nan")
