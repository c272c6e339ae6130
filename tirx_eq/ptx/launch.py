"""What a host needs to launch a kernel, as data with a JSON form.

Written beside the PTX; parameters are in the order of the ``.entry``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tirx_eq.errors import PtxError
from tirx_eq.ptx.tensormap import TensorMap

#: Version of the JSON form.
SCHEMA = 1

Dim3 = tuple[int, int, int]


@dataclass(frozen=True)
class LaunchParam:
    """One kernel parameter: ``kind`` is "scalar", "pointer" or "tensor_map", ``bytes`` its size.

    ``tensor_map`` describes the map that the host encodes for a parameter of that kind; ``dtype`` and ``shape`` are those
    of the array that a pointer is to, where they are known.
    """

    name: str
    kind: str
    type: str
    bytes: int
    tensor_map: TensorMap | None = None
    dtype: str | None = None
    shape: tuple[int, ...] | None = None

    def to_json(self) -> dict[str, Any]:
        """A JSON object."""
        out: dict[str, Any] = {"name": self.name, "kind": self.kind, "type": self.type, "bytes": self.bytes}
        if self.tensor_map is not None:
            out["tensor_map"] = self.tensor_map.to_json()
        if self.dtype is not None:
            out["dtype"] = self.dtype
        if self.shape is not None:
            out["shape"] = list(self.shape)
        return out


@dataclass(frozen=True)
class Launch:
    """Launch metadata of one kernel; sizes in CTAs, threads and bytes.  ``grid`` is None if the host chooses it.

    With ``ptx``, the module that has the kernel, it can be called: that launches the kernel on a GPU.
    """

    entry: str
    target: str
    grid: Dim3 | None
    block: Dim3
    cluster: Dim3 | None
    static_shared_bytes: int
    dynamic_shared_bytes: int
    params: tuple[LaunchParam, ...]
    ptx: str = field(default="", repr=False, compare=False)

    def __call__(self, *arguments: Any, stream: Any = None) -> None:
        """Launch on a GPU with these arguments, through ``cuda-bindings``; see :func:`tirx_eq.ptx.driver.launch`."""
        from .driver import launch

        launch(self, arguments, stream)

    def with_arrays(self, arrays: Mapping[str, tuple[str, tuple[int, ...] | None]], ptx: str = "") -> Launch:
        """The same with dtype and shape (None if not constant) of the arrays that parameters point to, and the PTX."""
        params = tuple(
            replace(p, dtype=arrays[p.name][0], shape=arrays[p.name][1]) if p.name in arrays else p for p in self.params
        )
        return replace(self, params=params, ptx=ptx)

    def __post_init__(self) -> None:
        if self.grid is not None and self.cluster is not None:
            for axis, (g, c) in enumerate(zip(self.grid, self.cluster)):
                if g % c:
                    raise PtxError(
                        f"kernel {self.entry}: grid {self.grid} is not a multiple of cluster {self.cluster} "
                        f"along {'xyz'[axis]}"
                    )
        if self.grid is not None:
            for axis, (g, limit) in enumerate(zip(self.grid, (2**31 - 1, 65535, 65535))):
                if not 1 <= g <= limit:
                    raise PtxError(f"kernel {self.entry}: grid size {g} along {'xyz'[axis]} is outside 1..{limit}")

    def to_json(self) -> dict[str, Any]:
        """A JSON object that :meth:`from_json` reads back."""
        return {
            "schema": SCHEMA,
            "entry": self.entry,
            "target": self.target,
            "grid": list(self.grid) if self.grid else None,
            "block": list(self.block),
            "cluster": list(self.cluster) if self.cluster else None,
            "static_shared_bytes": self.static_shared_bytes,
            "dynamic_shared_bytes": self.dynamic_shared_bytes,
            "params": [p.to_json() for p in self.params],
        }

    def dumps(self) -> str:
        """JSON text, indented, ending in a newline."""
        return json.dumps(self.to_json(), indent=2) + "\n"

    @staticmethod
    def from_json(data: dict[str, Any]) -> Launch:
        """Read a JSON object written by :meth:`to_json`; raises ``PtxError`` if a field is missing or malformed."""
        try:
            if data["schema"] != SCHEMA:
                raise PtxError(f"launch metadata: schema {data['schema']} is not {SCHEMA}")
            return Launch(
                entry=str(data["entry"]),
                target=str(data["target"]),
                grid=_dim3(data["grid"]),
                block=_dim3(data["block"]) or (1, 1, 1),
                cluster=_dim3(data["cluster"]),
                static_shared_bytes=int(data["static_shared_bytes"]),
                dynamic_shared_bytes=int(data["dynamic_shared_bytes"]),
                params=tuple(
                    LaunchParam(
                        p["name"],
                        p["kind"],
                        p["type"],
                        int(p["bytes"]),
                        TensorMap.from_json(p["tensor_map"]) if "tensor_map" in p else None,
                        str(p["dtype"]) if "dtype" in p else None,
                        tuple(int(n) for n in p["shape"]) if "shape" in p else None,
                    )
                    for p in data["params"]
                ),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise PtxError(f"launch metadata: {type(error).__name__}: {error}") from None


def _dim3(value: Any) -> Dim3 | None:
    if value is None:
        return None
    x, y, z = (int(v) for v in value)
    return x, y, z
