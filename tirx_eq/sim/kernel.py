"""Running a compiled kernel: its PTX text and launch data in the simulator, on numpy arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tirx_eq.errors import LaunchError, SimulationError
from tirx_eq.ptx.extents import known
from tirx_eq.ptx.host import arguments_of
from tirx_eq.sim.machine import Launch, Result, simulate
from tirx_eq.sim.transfers.tensormap import TensorMap

if TYPE_CHECKING:
    from tirx_eq.lower.kernel import Kernel
    from tirx_eq.ptx.tensormap import TensorMap as HostTensorMap

#: Names of swizzles and element types in launch data -> those of the simulator, where they differ.
SWIZZLES = {
    "128B_ATOM_32B": "128B_atom32B", "128B_ATOM_32B_FLIP_8B": "128B_atom32B_flip8B", "128B_ATOM_64B": "128B_atom64B",
}  # fmt: skip
ELEMENTS = {"u4_align8": "u4x16_align8", "u4_align16": "u4x16_align16", "u6_align16": "u6x16_align16"}


def simulate_kernel(
    kernel: Kernel, arguments: Sequence[Any], *, policy: str = "late", seed: int = 0, max_steps: int = 2_000_000,
    races: bool = True, trace: bool = False, progress: Callable[[int, int], None] | None = None,
    approximations: str = "nearest",
) -> Result:  # fmt: skip
    """Run a compiled kernel on ``arguments``: one per parameter of the function, tensor maps left out, in order.

    Arrays are memory as the kernel sees it (C order; 4-bit formats are packed two to a byte here, low half first);
    they are not modified.  ``Result.arrays`` has the arrays after the run, by parameter name.  ``policy``, ``seed``
    and ``approximations`` as for :func:`tirx_eq.sim.simulate`.  Faults are in ``Result.faults``.  SimulationError if the
    arguments don't fit.
    """
    try:
        launch, given_all = arguments_of(kernel.launch, arguments)
    except LaunchError as error:
        raise SimulationError(error.message, hint=error.hint) from None
    maps = {p.name: tensor_map(p.tensor_map) for p in launch.params if p.tensor_map is not None}
    x, y, z = known(launch.grid or (1, 1, 1))
    found = simulate(
        kernel.ptx, launch.entry,
        Launch((x, y, z), launch.block, launch.cluster or (1, 1, 1), launch.dynamic_shared_bytes),
        {name: packed(value) for name, value in given_all.items()}, maps, policy, seed, max_steps, races, trace,
        progress, approximations,
    )  # fmt: skip
    for name, given in given_all.items():
        if isinstance(given, np.ndarray) and is_packed(given):
            found.arrays[name] = unpacked(found.arrays[name], given)
    return found


def tensor_map(given: HostTensorMap) -> TensorMap:
    """The tensor map of launch data as the simulator's."""
    return TensorMap(
        given.tensor, ELEMENTS.get(given.type.name, given.type.name), known(given.shape), known(given.strides), given.box,
        given.element_strides, given.interleave, SWIZZLES.get(given.swizzle, given.swizzle), given.oob_fill,
        given.offset,
    )  # fmt: skip


def is_packed(array: np.ndarray) -> bool:
    """Whether the elements have 4 bits, which numpy holds in bytes."""
    return array.dtype.name in ("float4_e2m1fn", "int4", "uint4")


def packed(value: Any) -> Any:
    """An argument as it stands in memory."""
    if not isinstance(value, np.ndarray) or not is_packed(value):
        return value
    halves = np.ascontiguousarray(value).reshape(-1).view(np.uint8) & 0xF
    if len(halves) % 2:
        halves = np.append(halves, np.uint8(0))
    return halves[0::2] | (halves[1::2] << np.uint8(4))


def unpacked(raw: np.ndarray, like: np.ndarray) -> np.ndarray:
    """The inverse of :func:`packed`."""
    halves = np.stack([raw & 0xF, raw >> 4], axis=1).reshape(-1)[: like.size]
    return halves.astype(np.uint8).view(like.dtype).reshape(like.shape)
