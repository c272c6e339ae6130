"""Programs in the language of apache-tvm-tirx 0.1.0a4; tests/data/tvm_tirx holds the JSON it makes of them."""

import tvm_tirx
from tvm_tirx.backend.cuda.layout import mma_shared_layout
from tvm_tirx.script import tirx as T
from tvm_tirx.tirx.layout import Axis, S, TileLayout

swizzled = mma_shared_layout("float16", 3, (128, 64))
tx_axis, m_axis, lane_axis, col_axis = (Axis.get(n) for n in ("tx", "m", "TLane", "TCol"))
row_per_thread = TileLayout(S[(128, 64) : (1 @ tx_axis, 1 @ m_axis)])
tmem = TileLayout(S[(128, 64) : (1 @ lane_axis, 1 @ col_axis)])


@T.function
def statements(A: T.Tensor((64, 4), "float32"), B: T.Tensor((64,), "float32", layout="default"), n: T.int32):
    with T.device_entry():
        bx = T.cuda.block_idx("x")
        tx = T.cuda.thread_idx("x")
        s = T.alloc_tensor(ty_args=[T.Tensor((64,), "float32", scope="shared")])
        v = s.view(8, 8)
        x = A[tx, 0] * 2.0
        y: T.int32 = n + 1
        for i in T.unroll(4):
            B[tx] = x + T.exp(A[tx, i]) + v[0, i]
        for i in range(2, n, 2):
            B[i] = T.Select(i < n, x, T.if_then_else(i > 2, x, 0.5))
        while y < 10:
            y = (y & 7) + (y << 2) + (~y ^ (n >> 1))
            if y == 4:
                break
            else:
                continue
        assert n > 0, "bad n"
        if bx > 1 and not n == tx:
            B[bx] = T.max(B[bx], T.float32(0)) + T.Cast("float32", n // 3 + n % 3)


@T.function
def tiles(A: T.Tensor((128, 64), "float16"), D: T.Tensor((128, 64), "float32")):
    with T.device_entry():
        tx = T.cuda.thread_idx("x")
        w = T.cuda.warp_id()
        lane = T.cuda.lane_id()
        rank = T.cuda.cluster_cta_id("y")
        As = T.alloc_tensor(ty_args=[T.Tensor((128, 64), "float16", scope="shared.dyn", layout=swizzled)])
        regs = T.alloc_tensor(ty_args=[T.Tensor((128, 64), "float32", scope="local", layout=row_per_thread)])
        acc = T.cuda.decl_tmem(T.uint32(0), ty_args=[T.Tensor((128, 64), "float32", scope="tmem", layout=tmem)])
        T.cuda.cta_sync()
        T.cuda.tile.apply(T.ptx["mov.b32"], regs[:, :], T.float32(0), scope="thread")
        if w == rank:
            D[tx, lane] = T.Cast("float32", As[tx, lane]) + acc[0, 0]


def save(folder: str) -> None:
    """Write the JSON of each program."""
    for func in (statements, tiles):
        with open(f"{folder}/{func.attrs['global_symbol']}.json", "w") as file:
            file.write(tvm_tirx.ir.save_json(func))
