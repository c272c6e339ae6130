"""An elementwise kernel: B = 2·A over 1024 floats, one element per thread of 4 CTAs."""

from tirx_eq.script import tirx as Tx


@Tx.prim_func
def scale(A: Tx.Buffer((1024,), "float32"), B: Tx.Buffer((1024,), "float32")):
    Tx.device_entry()
    bx = Tx.cta_id([4])
    tx = Tx.thread_id([256])
    i = Tx.meta_var(bx * 256 + tx)
    B[i] = A[i] * Tx.float32(2.0)


if __name__ == "__main__":
    print(scale.script(extra_config={"tirx.prefix": "Tx"}))
