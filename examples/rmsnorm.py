"""RMSNorm: Y[i, :] = X[i, :] / sqrt(mean(X[i, :]²) + 1e-5) · W for 16 rows of 1024, f16 in, f32 out.

4 CTAs of 4 warps take the rows in turn, a row over a whole CTA: each warp keeps a quarter of it in registers, sums its
squares by shuffles, and the four sums meet in shared memory.
"""

from tirx_eq.layout import S, TileLayout, laneid
from tirx_eq.script import tirx as Tx

#: Lane l of a warp holds columns 128·c + 4·l .. + 3 of the warp's 256.
quarter = TileLayout(S[(1, 2, 32, 4) : (8, 4, 1 @ laneid, 1)])


@Tx.prim_func
def rmsnorm(
    X: Tx.Buffer((16, 1024), "float16"), W: Tx.Buffer((1, 1024), "float32"), Y: Tx.Buffer((16, 1024), "float32")
):
    Tx.device_entry()
    bx = Tx.cta_id([4])
    warp_id = Tx.warp_id([4])
    first = Tx.meta_var(warp_id * 256)

    sums = Tx.alloc_shared([4], "float32")
    x_reg = Tx.alloc_local((8,), "float32")
    square_reg = Tx.alloc_local((8,), "float32")
    scale = Tx.alloc_local((1,), "float32")
    x = x_reg.view(1, 256, layout=quarter)
    square = square_reg.view(1, 256, layout=quarter)

    for k in Tx.serial(4):
        row = Tx.meta_var(k * 4 + bx)
        Tx.warp.cast(x[:, :], X[row : row + 1, first : first + 256])
        Tx.warp.binary_reduce(square[:, :], sums[warp_id : warp_id + 1], x[:, :], x[:, :], "mul", "sum")
        Tx.cuda.cta_sync()
        # Every thread adds the four sums: a broadcast read, and no second way through shared memory.
        Tx.sum(scale[:], sums[:])
        Tx.sqrt(scale[:], scale[:], 1e-5, 1 / 1024)
        Tx.reciprocal(scale[:], scale[:])
        Tx.mul(x_reg[:], x_reg[:], scale[0])
        Tx.warp.mul(Y[row : row + 1, first : first + 256], x[:, :], W[:, first : first + 256])
        # The sums are read before the next row's overwrite them.
        Tx.cuda.cta_sync()


def main() -> None:
    """Compile it, run the PTX on the simulator, compare with numpy in double precision, and assemble it."""
    import numpy as np

    import tirx_eq as te

    kernel = te.compile(rmsnorm)
    print(kernel.explain())
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((16, 1024)).astype(np.float16), rng.uniform(0.5, 2, (1, 1024)).astype(np.float32)
    wide = x.astype(np.float64)
    exact = wide / np.sqrt((wide**2).mean(axis=1, keepdims=True) + 1e-5) * w
    # Squares of f16 are exact in f32; a sum has at most 12 roundings and the root halves their effect; then come one each
    # for mean and root (the mean's halved), reciprocal and the two products.
    bound = 11 * 2.0**-24
    for policy in ("late", "early", "random"):
        result = kernel.simulate(x, w, np.zeros((16, 1024), np.float32), policy=policy)
        error = float(np.max(np.abs(result.arrays["Y"] - exact) / np.abs(exact)))
        right = error <= bound and not result.faults
        print(f"policy {policy}: {'right' if right else 'WRONG'}, relative error {error:.1e} of {bound:.1e} allowed, "
              f"{len(result.faults)} faults")  # fmt: skip
        assert right
    made = kernel.assemble()
    print(f"{made.registers} registers, {made.spill_stores + made.spill_loads} bytes of spills")


if __name__ == "__main__":
    main()
