"""Launching through the CUDA driver, with a stand-in for the driver whose device memory is the host's and whose GPU is the
simulator: what it is given as parameters is read back as the hardware would, and results are compared with numpy.
"""

from __future__ import annotations

import ctypes
import enum
import struct
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from tirx_eq.errors import LaunchError
from tirx_eq.lower.kernel import compile_function
from tirx_eq.ptx import driver
from tirx_eq.ptx.launch import Launch
from tirx_eq.script import load_file

EXAMPLES = Path(__file__).parents[2] / "examples"


@cache
def kernel(name):
    return compile_function(next(iter(load_file(EXAMPLES / f"{name}.py").values())))


class Status(enum.IntEnum):
    CUDA_SUCCESS = 0
    CUDA_ERROR_OUT_OF_MEMORY = 2


class FakeDriver:
    """The calls of ``cuda.bindings.driver`` that a launch makes."""

    CUtensorMapDataType = CUtensorMapInterleave = CUtensorMapSwizzle = staticmethod(int)
    CUtensorMapL2promotion = CUtensorMapFloatOOBfill = cuuint64_t = cuuint32_t = CUstream = staticmethod(int)
    CUlaunchConfig = CUlaunchAttribute = SimpleNamespace
    CUlaunchAttributeID = SimpleNamespace(CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION=4)
    CUdevice_attribute = SimpleNamespace(
        CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR=75, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR=76
    )
    CUfunction_attribute = SimpleNamespace(
        CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES=8, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED=14
    )

    def __init__(self, data, run=None, capability=(10, 0), refuse=()):
        self.data, self.run, self.capability, self.refuse = data, run, capability, refuse
        self.memory, self.maps, self.calls, self.attributes = {}, [], [], {}

    @staticmethod
    def CUlaunchAttributeValue():
        return SimpleNamespace(clusterDim=SimpleNamespace(x=0, y=0, z=0))

    def __getattribute__(self, name):
        if name.startswith("cu") and not name.startswith("cuuint"):
            self.calls.append(name)
            if name in self.refuse:
                return lambda *_: (Status.CUDA_ERROR_OUT_OF_MEMORY, None)
        return super().__getattribute__(name)

    def cuInit(self, flags):
        return (Status.CUDA_SUCCESS,)

    def cuCtxGetCurrent(self):
        return Status.CUDA_SUCCESS, 0

    def cuDeviceGet(self, number):
        return Status.CUDA_SUCCESS, number

    def cuDevicePrimaryCtxRetain(self, device):
        return Status.CUDA_SUCCESS, 99

    def cuCtxSetCurrent(self, context):
        return (Status.CUDA_SUCCESS,)

    def cuCtxGetDevice(self):
        return Status.CUDA_SUCCESS, 0

    def cuCtxSynchronize(self):
        return (Status.CUDA_SUCCESS,)

    def cuDeviceGetAttribute(self, kind, device):
        return Status.CUDA_SUCCESS, self.capability[kind - 75]

    def cuModuleLoadData(self, image):
        assert image.endswith(b"\0")
        return Status.CUDA_SUCCESS, image

    def cuModuleGetFunction(self, module, name):
        return Status.CUDA_SUCCESS, (module, name)

    def cuFuncSetAttribute(self, function, kind, value):
        self.attributes[kind] = value
        return (Status.CUDA_SUCCESS,)

    def cuMemAlloc(self, size):
        buffer = (ctypes.c_ubyte * (size + 256))()
        address = -(-ctypes.addressof(buffer) // 256) * 256
        self.memory[address] = buffer
        return Status.CUDA_SUCCESS, address

    def cuMemFree(self, address):
        del self.memory[address]
        return (Status.CUDA_SUCCESS,)

    def cuMemcpyHtoD(self, to, source, size):
        ctypes.memmove(to, source, size)
        return (Status.CUDA_SUCCESS,)

    cuMemcpyDtoH = cuMemcpyHtoD

    def cuTensorMapEncodeTiled(self, *fields):
        self.maps.append(fields)
        content = ctypes.create_string_buffer(struct.pack("<Q", len(self.maps)).ljust(128, b"\xee"), 128)
        return Status.CUDA_SUCCESS, SimpleNamespace(getPtr=lambda: ctypes.addressof(content), keep=content)

    def cuLaunchKernelEx(self, config, function, parameters, extra):
        """Read the parameters where the pointers say, run the simulator on the arrays, write the results back."""
        self.config = config
        count = len(self.data.params)
        pointers = (ctypes.c_void_p * count).from_address(parameters)
        raw = [ctypes.string_at(at, p.bytes) for at, p in zip(pointers, self.data.params)]
        self.alignments = [at % 64 for at, p in zip(pointers, self.data.params) if p.kind == "tensor_map"]
        if self.run is not None:
            self._simulate(raw)
        return (Status.CUDA_SUCCESS,)

    def _simulate(self, raw):
        arrays, arguments = {}, []
        for p, content in zip(self.data.params, raw):
            if p.kind != "pointer":
                continue
            size = int(np.prod(p.shape)) * np.dtype(p.dtype).itemsize
            address = struct.unpack("<Q", content)[0]
            view = np.frombuffer((ctypes.c_ubyte * size).from_address(address), dtype=p.dtype).reshape(p.shape)
            arrays[p.name] = (address, view)
            arguments.append(view.copy())
        made = [i for i, p in enumerate(self.data.params) if p.kind == "tensor_map"]
        for number, i in enumerate(made):
            p = self.data.params[i]
            assert struct.unpack("<Q", raw[i][:8])[0] == number + 1 and raw[i][8:] == b"\xee" * 120
            assert self.maps[number][2] == arrays[p.tensor_map.tensor][0] + p.tensor_map.offset
        result = self.run(*arguments)
        assert not result.faults
        for name, (_, view) in arrays.items():
            view[...] = result.arrays[name]


def launched(k, *arguments, data=None, **options):
    fake = FakeDriver(data or k.launch, k.simulate, **options)
    driver._loaded.clear()
    driver.launch(data or k.launch, arguments, driver=fake)
    assert not fake.memory, "device memory was not freed"
    return fake


def operands(k, seed=0):
    generator = np.random.default_rng(seed)
    a, b, d = (p.shape for p in k.launch.params if p.kind == "pointer")
    return *(generator.integers(-2, 3, s).astype(np.float16) for s in (a, b)), np.zeros(d, np.float16)


def test_arrays_of_the_host_go_there_and_back():
    k = kernel("scale")
    a, b = np.arange(1024, dtype=np.float32), np.zeros(1024, np.float32)
    fake = launched(k, a, b)
    np.testing.assert_array_equal(b, 2 * a)
    assert (fake.config.gridDimX, fake.config.blockDimX) == (4, 256)
    assert fake.attributes == {} and not hasattr(fake.config, "attrs")


def test_tensor_maps_are_encoded_and_passed():
    k = kernel("gemm_tma")
    a, b, d = operands(k)
    fake = launched(k, a, b, d)
    np.testing.assert_array_equal(d, (a.astype(np.float32) @ b.astype(np.float32).T).astype(np.float16))
    assert fake.alignments == [0, 0, 0]
    kind, rank, _, shape, strides, box, steps, interleave, swizzle, _, fill = fake.maps[0]
    assert (kind, rank, shape, strides, box) == (6, 2, [128, 256], [256], [64, 128])
    assert (steps, interleave, swizzle, fill) == ([1, 1], 0, 3, 0)
    assert fake.attributes == {8: k.launch.dynamic_shared_bytes}


def test_extents_come_from_the_arrays():
    from tests.lower.test_symbolic_shapes import ROWS, function

    k = compile_function(function(ROWS))
    a, b = np.arange(640, dtype=np.float32).reshape(10, 64), np.zeros((10, 64), np.float32)
    fake = FakeDriver(k.launch.at({"m": 10}), k.simulate)
    driver._loaded.clear()
    driver.launch(k.launch, (a, b), driver=fake)
    np.testing.assert_array_equal(b, 2 * a)
    assert (fake.config.gridDimX, fake.config.gridDimY) == (3, 1)
    with pytest.raises(LaunchError, match="argument 'A' is a int, from which no extent can be taken"):
        driver.launch(k.launch, (4096, b), driver=fake)


def test_clusters_are_an_attribute_of_the_launch():
    data = replace(kernel("scale").launch, cluster=(2, 1, 1))
    fake = FakeDriver(data)
    driver._loaded.clear()
    driver.launch(data, [4096, 8192], driver=fake, stream=SimpleNamespace(cuda_stream=17))
    (attribute,) = fake.config.attrs
    assert (attribute.id, fake.config.numAttrs, fake.config.hStream) == (4, 1, 17)
    assert (attribute.value.clusterDim.x, attribute.value.clusterDim.y) == (2, 1)
    assert "cuCtxSynchronize" not in fake.calls


def test_a_module_is_loaded_once():
    data = kernel("scale").launch
    fake = FakeDriver(data)
    driver._loaded.clear()
    for _ in range(3):
        driver.launch(data, [4096, 8192], driver=fake)
    assert fake.calls.count("cuModuleLoadData") == 1


def test_the_json_says_what_the_arrays_are():
    data = kernel("gemm_tma").launch
    again = Launch.from_json(data.to_json())
    assert again == data and not again.ptx
    assert [(p.dtype, p.shape) for p in again.params[:1]] == [("float16", (256, 128))]
    with pytest.raises(LaunchError, match="no PTX"):
        driver.launch(again, [0, 0, 0], driver=FakeDriver(again))


A, B = np.zeros(1024, np.float32), np.zeros(1024, np.float32)
BAD = {
    "number": ((A,), "takes 2 arguments"),
    "dtype": ((A.astype(np.float64), B), "float64"),
    "shape": ((A[:512].copy(), B), "shape"),
    "order": ((np.zeros((32, 32), np.float32).T, B), "contiguous"),
    "type": (("text", B), "not an array"),
}


@pytest.mark.parametrize("what", BAD)
def test_arguments_that_do_not_fit(what):
    arguments, says = BAD[what]
    with pytest.raises(LaunchError, match=says):
        launched(kernel("scale"), *arguments)


@pytest.mark.parametrize(
    ("target", "capability", "good"),
    [("sm_100a", (10, 0), True), ("sm_100a", (9, 0), False), ("sm_100a", (10, 3), False), ("sm_100f", (10, 3), True),
     ("sm_100f", (12, 0), False), ("sm_90", (10, 0), True), ("sm_100", (9, 0), False)],
)  # fmt: skip
def test_the_device_must_be_what_the_kernel_is_for(target, capability, good):
    data = replace(kernel("scale").launch, target=target)
    fake = FakeDriver(data, capability=capability)
    if good:
        driver.launch(data, [4096, 8192], driver=fake)
    else:
        with pytest.raises(LaunchError, match="compute capability"):
            driver.launch(data, [4096, 8192], driver=fake)
        assert "cuLaunchKernelEx" not in fake.calls


def test_what_the_driver_refuses_is_told_and_memory_is_freed():
    k = kernel("scale")
    fake = FakeDriver(k.launch, refuse=("cuLaunchKernelEx",))
    before = B.copy()
    with pytest.raises(LaunchError, match="cuLaunchKernelEx failed: CUDA_ERROR_OUT_OF_MEMORY"):
        driver.launch(k.launch, [A, B], driver=fake)
    assert not fake.memory and (B == before).all()


def test_misaligned_tensors_have_no_map():
    k = kernel("gemm_tma")
    with pytest.raises(LaunchError, match="multiple of 16"):
        driver.launch(k.launch, [4096 + 8, 8192, 8192], driver=FakeDriver(k.launch))


def test_maps_that_pad_elements_of_four_bits():
    """16U4_ALIGN16B is number 14; extents and box count elements, strides bytes; addresses are multiples of 32."""
    from tests.lower.test_run_padded import loaded

    k = compile_function(loaded(columns=256))
    fake = FakeDriver(k.launch)
    driver._loaded.clear()
    driver.launch(k.launch, (np.zeros((16, 128), np.uint8), np.zeros((16, 128), np.uint8)), driver=fake)
    kind, rank, _, shape, strides, box, _, _, swizzle, _, _ = fake.maps[0]
    assert (kind, rank, shape, strides, box, swizzle) == (14, 2, [256, 16], [128], [128, 16], 3)
    with pytest.raises(LaunchError, match="multiple of 32"):
        driver.launch(k.launch, [4096 + 16, 8192], driver=FakeDriver(k.launch))


def test_without_bindings_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "cuda", None)
    monkeypatch.setitem(sys.modules, "cuda.bindings", None)
    with pytest.raises(LaunchError, match="cuda-bindings") as error:
        kernel("scale").launch(A, B)
    assert "tirx-eq[cuda]" in str(error.value)


def test_real_bindings_without_a_gpu():
    pytest.importorskip("cuda.bindings.driver", reason="CUDA-BINDINGS IS NOT INSTALLED: only the stand-in was used")
    try:
        kernel("scale").launch(A, B)
    except LaunchError as error:
        assert "CUDA" in str(error) or "compute capability" in str(error)
