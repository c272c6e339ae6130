"""What a host needs to launch a kernel, as data with a JSON form.

Written beside the PTX; parameters are in the order of the ``.entry``.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tirx_eq.errors import PtxError, TirxError
from tirx_eq.ptx.extents import Extent, from_json, resolved, to_json
from tirx_eq.ptx.tensormap import TensorMap

#: Version of the JSON form.
SCHEMA = 1

Dim3 = tuple[int, int, int]
#: Of a kernel of symbolic shapes, sizes may be terms over the names of its scalar parameters.
Grid = tuple[Extent, Extent, Extent]


@dataclass(frozen=True)
class LaunchParam:
    """One kernel parameter: ``kind`` is "scalar", "pointer" or "tensor_map", ``bytes`` its size.

    ``tensor_map`` describes the map that the host encodes for a parameter of that kind; ``dtype`` and ``shape`` are those
    of the array that a pointer is to, where they are known.  ``extent_of`` (array, dimension) tells that a scalar isn't
    given, but is that extent of an argument.  ``unchanged``: the kernel doesn't write the array; only such may overlap.
    """

    name: str
    kind: str
    type: str
    bytes: int
    tensor_map: TensorMap | None = None
    dtype: str | None = None
    shape: tuple[Extent, ...] | None = None
    extent_of: tuple[str, int] | None = None
    unchanged: bool = False

    @property
    def given(self) -> bool:
        """Whether whoever launches the kernel gives it; the others are made or derived."""
        return self.kind != "tensor_map" and self.extent_of is None

    def to_json(self) -> dict[str, Any]:
        """A JSON object."""
        out: dict[str, Any] = {"name": self.name, "kind": self.kind, "type": self.type, "bytes": self.bytes}
        if self.tensor_map is not None:
            out["tensor_map"] = self.tensor_map.to_json()
        if self.dtype is not None:
            out["dtype"] = self.dtype
        if self.shape is not None:
            out["shape"] = [to_json(e) for e in self.shape]
        if self.extent_of is not None:
            out["extent_of"] = list(self.extent_of)
        if self.unchanged:
            out["unchanged"] = True
        return out


@dataclass(frozen=True)
class Launch:
    """Launch metadata of one kernel; sizes in CTAs, threads and bytes.  ``grid`` is None if the host chooses it.

    With ``ptx``, the module that has the kernel, it can be called: that launches the kernel on a GPU.
    """

    entry: str
    target: str
    grid: Grid | None
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

    def with_arrays(
        self, arrays: Mapping[str, tuple[str, tuple[Extent, ...] | None]], extents: Mapping[str, tuple[str, int]],
        ptx: str = "", unchanged: Collection[str] = (),
    ) -> Launch:  # fmt: skip
        """The same with dtype and shape of the arrays that parameters point to, which scalars are extents, the PTX, and the
        arrays that the kernel doesn't write."""
        params = tuple(
            replace(p, dtype=arrays[p.name][0], shape=arrays[p.name][1], unchanged=p.name in unchanged) if p.name in arrays
            else replace(p, extent_of=extents.get(p.name))
            for p in self.params
        )  # fmt: skip
        return replace(self, params=params, ptx=ptx)

    def at(self, values: Mapping[str, int]) -> Launch:
        """The launch for these values of scalar parameters, all sizes integers.

        Raises PtxError for a size that the hardware or the driver refuses, LaunchError for one that has no value.
        """
        params = tuple(
            replace(
                p,
                tensor_map=p.tensor_map.at(values) if p.tensor_map is not None else None,
                shape=None if p.shape is None
                else tuple(resolved(e, values, f"extent {d} of '{p.name}',") for d, e in enumerate(p.shape)),
            )
            for p in self.params
        )  # fmt: skip
        if self.grid is None:
            return replace(self, params=params)
        x, y, z = (resolved(g, values, f"the grid's {axis} extent") for axis, g in zip("xyz", self.grid))
        return replace(self, grid=(x, y, z), params=params)

    def __post_init__(self) -> None:
        cluster = self.cluster or (1, 1, 1)
        for axis, g, c, limit in zip("xyz", self.grid or (), cluster, (2**31 - 1, 65535, 65535)):
            if not isinstance(g, int):
                continue
            if g % c:
                raise PtxError(
                    f"kernel {self.entry}: grid {self.grid} is not a multiple of cluster {self.cluster} along {axis}"
                )
            if not 1 <= g <= limit:
                raise PtxError(f"kernel {self.entry}: grid size {g} along {axis} is outside 1..{limit}")

    def to_json(self) -> dict[str, Any]:
        """A JSON object that :meth:`from_json` reads back."""
        return {
            "schema": SCHEMA,
            "entry": self.entry,
            "target": self.target,
            "grid": [to_json(g) for g in self.grid] if self.grid else None,
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
                grid=_grid(data["grid"]),
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
                        tuple(from_json(n) for n in p["shape"]) if "shape" in p else None,
                        (str(p["extent_of"][0]), int(p["extent_of"][1])) if "extent_of" in p else None,
                        bool(p.get("unchanged", False)),
                    )
                    for p in data["params"]
                ),
            )
        except PtxError:
            raise
        except (KeyError, TypeError, ValueError, IndexError, TirxError) as error:
            raise PtxError(f"launch metadata: {type(error).__name__}: {error}") from None


def _grid(value: Any) -> Grid | None:
    if value is None:
        return None
    x, y, z = (from_json(v) for v in value)
    return x, y, z


def _dim3(value: Any) -> Dim3 | None:
    if value is None:
        return None
    x, y, z = (int(v) for v in value)
    return x, y, z
