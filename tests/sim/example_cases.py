"""The kernels of ``examples/``: their compiled PTX, generated inputs, and what the simulator gives for the original."""

import functools
from pathlib import Path

import numpy as np

from tests.sim.nvcc_cases import Case
from tirx_eq.interp.inputs import generate_inputs
from tirx_eq.interp.run import to_memory
from tirx_eq.lower.kernel import compile_function
from tirx_eq.script import load_file
from tirx_eq.sim import Launch, simulate
from tirx_eq.sim.kernel import tensor_map
from tirx_eq.solve.compile import filled

FOLDER = Path(__file__).parent.parent.parent / "examples"
#: files of examples that define a kernel
NAMES = sorted(p.stem for p in FOLDER.glob("*.py") if "prim_func" in p.read_text())


@functools.cache
def example(name: str) -> tuple[str, Case]:
    """PTX text of an example, and a case whose expected arrays are those of a run without faults.

    That these are right is the business of ``tirx-eq run`` and its tests; here only a difference counts.
    """
    functions = load_file(str(FOLDER / f"{name}.py"))
    func, _ = filled(next(iter(functions.values())), "sm_100a")
    kernel = compile_function(func, "sm_100a")
    given = kernel.launch
    launch = Launch(given.grid or (1, 1, 1), given.block, given.cluster or (1, 1, 1), given.dynamic_shared_bytes)
    names = [p.name for p in given.params if p.kind != "tensor_map"]
    arguments = dict(zip(names, to_memory(func, generate_inputs(func, 0, "integers", None)), strict=True))
    maps = {p.name: tensor_map(p.tensor_map) for p in given.params if p.tensor_map is not None}
    result = simulate(kernel.ptx, given.entry, launch, arguments, maps).raise_for_faults()
    expected = {k: v for k, v in result.arrays.items() if not np.array_equal(v, arguments[k], equal_nan=v.dtype.kind == "f")}
    return kernel.ptx, Case(launch, arguments, expected, maps=maps)
