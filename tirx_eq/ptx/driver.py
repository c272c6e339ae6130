"""Launching on a GPU through NVIDIA's driver, as the wheel ``cuda-bindings`` offers it (extra ``cuda``).

Sources: CUDA driver API (module management, ``cuTensorMapEncodeTiled``, ``cuLaunchKernelEx``).
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ..errors import LaunchError
from .host import arguments_of, bytes_of, check_apart, check_array, pack
from .launch import Launch, LaunchParam
from .tensormap import INTERLEAVES, L2_PROMOTIONS, MAP_SWIZZLES, OOB_FILLS, TensorMap

#: A CTA has this much dynamic shared memory without asking (bytes).
FREE_SHARED = 48 * 1024
#: The most CTAs of a cluster that every device takes.
PORTABLE_CLUSTER = 8
MAP_BYTES, MAP_ALIGN = 128, 64

_loaded: dict[tuple[str, str, int], Any] = {}


def bindings() -> Any:
    """The module ``cuda.bindings.driver``.  Raises LaunchError if it isn't installed."""
    try:
        from cuda.bindings import driver
    except ImportError as error:
        raise LaunchError(f"cuda-bindings is not installed ({error})", hint='pip install "tirx-eq[cuda]"') from None
    return driver


@dataclass
class _Session:
    """One launch: the driver, and device memory that was made for host arrays (address, array)."""

    cu: Any
    copies: list[tuple[int, Any]] = field(default_factory=list)

    def call(self, name: str, *arguments: Any) -> Any:
        """Call the driver; the result without its status, which raises LaunchError if it isn't success."""
        try:
            status, *rest = getattr(self.cu, name)(*arguments)
        except LaunchError:
            raise
        except Exception as error:  # the bindings raise errors of their own, for instance if there is no driver
            raise LaunchError(f"the CUDA driver can't be used: {str(error).splitlines()[0]}") from None
        if int(status) != 0:
            raise LaunchError(f"{name} failed: {getattr(status, 'name', status)}")
        return rest[0] if len(rest) == 1 else tuple(rest)

    def address(self, p: LaunchParam, value: Any) -> int:
        """The device address of an argument: an integer, an array of a GPU library, or a numpy array, which is copied."""
        if isinstance(value, int):
            return value
        if (interface := getattr(value, "__cuda_array_interface__", None)) is not None:
            check_array(p, getattr(getattr(value, "dtype", None), "name", None), interface["shape"], _packed(interface))
            return int(interface["data"][0])
        if hasattr(value, "data_ptr"):
            check_array(p, str(value.dtype).rpartition(".")[2], tuple(value.shape), bool(value.is_contiguous()))
            return int(value.data_ptr())
        if hasattr(value, "__array_interface__"):
            check_array(p, value.dtype.name, value.shape, bool(value.flags.c_contiguous))
            return self._copied(value)
        raise LaunchError(
            f"argument '{p.name}' is a {type(value).__name__}, not an array",
            hint="give an array on the device (__cuda_array_interface__ or data_ptr()), a numpy array, or an address",
        )

    def _copied(self, array: Any) -> int:
        address = int(self.call("cuMemAlloc", array.nbytes))
        self.copies.append((address, array))
        self.call("cuMemcpyHtoD", address, array.ctypes.data, array.nbytes)
        return address

    def finish(self, worked: bool) -> None:
        """Bring results back into host arrays that may be written, and free what was allocated for them."""
        while self.copies:
            address, array = self.copies.pop()
            if worked and array.flags.writeable:
                self.call("cuMemcpyDtoH", array.ctypes.data, address, array.nbytes)
            self.call("cuMemFree", address)

    def encode(self, made: TensorMap, address: int) -> bytes:
        """The 128 bytes of a tensor map."""
        cu = self.cu
        found = self.call(
            "cuTensorMapEncodeTiled", cu.CUtensorMapDataType(made.type.code), made.rank, address,
            [cu.cuuint64_t(n) for n in made.shape], [cu.cuuint64_t(n) for n in made.strides],
            [cu.cuuint32_t(n) for n in made.box], [cu.cuuint32_t(n) for n in made.element_strides],
            cu.CUtensorMapInterleave(INTERLEAVES[made.interleave]), cu.CUtensorMapSwizzle(MAP_SWIZZLES[made.swizzle][0]),
            cu.CUtensorMapL2promotion(L2_PROMOTIONS[made.l2_promotion]), cu.CUtensorMapFloatOOBfill(OOB_FILLS[made.oob_fill]),
        )  # fmt: skip
        return ctypes.string_at(found.getPtr(), MAP_BYTES)


def launch(data: Launch, given: Sequence[Any], stream: Any = None, driver: Any = None) -> None:
    """Launch ``data`` on the current device (device 0 if there is no current context).

    ``given``: one argument per parameter, tensor maps left out: arrays on the device, numpy arrays (copied there, and
    back after the kernel has finished), addresses, numbers.  ``stream``: a handle, or an object with ``cuda_stream``;
    default the null stream.  With numpy arrays the call returns when the kernel has finished, else when it is queued.
    Raises LaunchError if there is no driver, the device isn't what the kernel was compiled for, an argument doesn't fit,
    arrays overlap of which the kernel writes one, or the driver refuses.
    """
    data, arguments = arguments_of(data, given)
    if data.grid is None:
        raise LaunchError(f"{data.entry} was compiled without a grid")
    session = _Session(driver or bindings())
    device = _device(session)
    _check_device(session, data, device)
    function = _function(session, data, device)
    worked = False
    try:
        kinds = {p.name: p for p in data.params}
        values = {n: session.address(kinds[n], v) if kinds[n].kind == "pointer" else v for n, v in arguments.items()}
        blocks = [_aligned(b) for b in pack(data, values, session.encode)]
        check_apart(data, {n: (values[n], bytes_of(kinds[n])) for n in values if kinds[n].kind == "pointer"})
        pointers = (ctypes.c_void_p * max(1, len(blocks)))(*(ctypes.addressof(b) + skip for b, skip in blocks))
        session.call("cuLaunchKernelEx", _config(session.cu, data, stream), function, ctypes.addressof(pointers), 0)
        if session.copies:
            session.call("cuCtxSynchronize")
        worked = True
    finally:
        session.finish(worked)


def _packed(interface: dict[str, Any]) -> bool:
    """Whether an array on the device is contiguous: CUDA array interface, version 3, has no strides then."""
    return interface.get("strides") is None


def _aligned(content: bytes) -> tuple[Any, int]:
    """A buffer with the content, and how far into it the content begins: at a multiple of what a tensor map needs."""
    buffer = (ctypes.c_ubyte * (len(content) + MAP_ALIGN))()
    skip = -ctypes.addressof(buffer) % MAP_ALIGN
    ctypes.memmove(ctypes.addressof(buffer) + skip, content, len(content))
    return buffer, skip


def _device(session: _Session) -> int:
    """The device of the current context; without one, device 0's primary context is made current."""
    session.call("cuInit", 0)
    if int(session.call("cuCtxGetCurrent")) == 0:
        device = session.call("cuDeviceGet", 0)
        session.call("cuCtxSetCurrent", session.call("cuDevicePrimaryCtxRetain", device))
    return int(session.call("cuCtxGetDevice"))


def _check_device(session: _Session, data: Launch, device: int) -> None:
    kinds = session.cu.CUdevice_attribute
    major = int(session.call("cuDeviceGetAttribute", kinds.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device))
    minor = int(session.call("cuDeviceGetAttribute", kinds.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device))
    have, wanted = 10 * major + minor, int("".join(c for c in data.target if c.isdigit()))
    # Suffix a: this architecture only; f: its family from there on; none: any later one (PTX ISA, .target).
    suffix = data.target[-1] if data.target[-1] in "af" else ""
    same_family = have // 10 == wanted // 10 and have >= wanted
    if not (have == wanted if suffix == "a" else same_family if suffix == "f" else have >= wanted):
        raise LaunchError(f"{data.entry} is for {data.target}, but the device has compute capability {major}.{minor}")


def _function(session: _Session, data: Launch, device: int) -> Any:
    """The kernel, loaded once per device, with the shared memory and cluster size that it needs permitted."""
    if not data.ptx:
        raise LaunchError(f"the launch data of {data.entry} has no PTX with it", hint="launch the compiled kernel's own data")
    key = (data.ptx, data.entry, device)
    if key not in _loaded:
        module = session.call("cuModuleLoadData", data.ptx.encode() + b"\0")
        function = session.call("cuModuleGetFunction", module, data.entry.encode())
        kinds = session.cu.CUfunction_attribute
        if data.dynamic_shared_bytes > FREE_SHARED:
            kind = kinds.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            session.call("cuFuncSetAttribute", function, kind, data.dynamic_shared_bytes)
        x, y, z = data.cluster or (1, 1, 1)
        if x * y * z > PORTABLE_CLUSTER:
            session.call("cuFuncSetAttribute", function, kinds.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1)
        _loaded[key] = function
    return _loaded[key]


def _config(cu: Any, data: Launch, stream: Any) -> Any:
    config = cu.CUlaunchConfig()
    assert data.grid is not None
    config.gridDimX, config.gridDimY, config.gridDimZ = data.grid
    config.blockDimX, config.blockDimY, config.blockDimZ = data.block
    config.sharedMemBytes = data.dynamic_shared_bytes
    handle = getattr(stream, "cuda_stream", stream)
    config.hStream = cu.CUstream(0 if handle is None else int(handle))
    if data.cluster is not None:
        attribute, value = cu.CUlaunchAttribute(), cu.CUlaunchAttributeValue()
        value.clusterDim.x, value.clusterDim.y, value.clusterDim.z = data.cluster
        attribute.id = cu.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
        attribute.value = value
        config.attrs, config.numAttrs = [attribute], 1
    return config
