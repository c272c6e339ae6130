"""What the GEMM examples end in: their PTX, run in the simulator under every schedule and compared with numpy."""

from typing import Any


def check(gemm: Any) -> None:
    """Compile a kernel that computes D = A·Bᵀ in f16 (f32 inside), show its lowerings, and run it."""
    import numpy as np

    import tirx_eq as te

    kernel = te.compile(gemm)
    print(kernel.explain())
    shapes = [[int(n) for n in buffer.shape] for buffer in gemm.buffer_map.values()]
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-2, 3, shape).astype(np.float16) for shape in shapes[:2])
    want = (a.astype(np.float32) @ b.astype(np.float32).T).astype(np.float16)
    for policy in ("late", "early", "random"):
        result = kernel.simulate(a, b, np.zeros(shapes[2], np.float16), policy=policy)
        right = np.array_equal(result.arrays["D"], want) and not result.faults
        print(f"asynchronous work {policy}: {'right' if right else 'WRONG'}, {len(result.faults)} faults")
        assert right
