"""Softmax of rows in registers: Y[i, :] = exp(X[i, :]) / sum(exp(X[i, :])), f16 in, f32 out.

4 CTAs of 4 warps; each warp takes 4 rows of 256, 8 lanes to a row, so that the maximum and the sum of a row meet in
three shuffles.
"""

from tirx_eq.layout import R, S, TileLayout, laneid
from tirx_eq.script import tirx as Tx

#: Lane 8·r + l of a warp holds 4 neighbours of row r at columns 32·c + 4·l: the 8 lanes of a row read a stretch of it.
rows = TileLayout(S[(4, 8, 8, 4) : (8 @ laneid, 4, 1 @ laneid, 1)])
#: One number per row, in each of the row's 8 lanes.
row_values = TileLayout(S[(4, 1) : (8 @ laneid, 1)] + R[8 : 1 @ laneid])
log2_e = 1.4426950408889634


@Tx.prim_func
def softmax(X: Tx.Buffer((64, 256), "float16"), Y: Tx.Buffer((64, 256), "float32")):
    Tx.device_entry()
    bx = Tx.cta_id([4])
    warp_id = Tx.warp_id([4])
    first = Tx.meta_var(bx * 16 + warp_id * 4)

    x_reg = Tx.alloc_local((32,), "float32")
    shift_reg = Tx.alloc_local((1,), "float32")
    total_reg = Tx.alloc_local((1,), "float32")
    x = x_reg.view(4, 256, layout=rows)
    shift = shift_reg.view(4, 1, layout=row_values)
    total = total_reg.view(4, 1, layout=row_values)

    Tx.warp.cast(x[:, :], X[first : first + 4, :])
    # exp(x - max) = exp2(x·log2 e - max·log2 e): a multiply-add and an exp2 per element, and nothing overflows.
    Tx.warp.reduce_negate(shift[:, 0], x[:, :], "max")
    Tx.warp.mul(shift[:, :], shift[:, :], log2_e)
    Tx.warp.exp2(x[:, :], x[:, :], shift[:, :], log2_e)
    Tx.warp.sum(total[:, 0], x[:, :])
    Tx.warp.reciprocal(total[:, :], total[:, :])
    Tx.warp.mul(Y[first : first + 4, :], x[:, :], total[:, :])


def main() -> None:
    """Compile it, run the PTX on the simulator, compare with numpy in double precision, and assemble it."""
    import numpy as np

    import tirx_eq as te

    kernel = te.compile(softmax)
    print(kernel.explain())
    x = np.random.default_rng(0).uniform(-6, 6, (64, 256)).astype(np.float16)
    exact = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
    exact /= exact.sum(axis=1, keepdims=True)
    # In units of 2^-24, for |x| <= 6: 24 for the exponent, 4 for exp2, and as much again in the sum with its 8 additions;
    # one each for the reciprocal and the product.
    bound = 66 * 2.0**-24
    for policy in ("late", "early", "random"):
        result = kernel.simulate(x, np.zeros((64, 256), np.float32), policy=policy)
        error = float(np.max(np.abs(result.arrays["Y"] / exact - 1)))
        right = error <= bound and not result.faults
        print(f"policy {policy}: {'right' if right else 'WRONG'}, relative error {error:.1e} of {bound:.1e} allowed, "
              f"{len(result.faults)} faults")  # fmt: skip
        assert right
    made = kernel.assemble()
    print(f"{made.registers} registers, {made.spill_stores + made.spill_loads} bytes of spills")


if __name__ == "__main__":
    main()
