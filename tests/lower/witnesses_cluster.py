"""Kernels that one condition each keeps from a lowering to other CTAs of the cluster."""

from __future__ import annotations

from .cluster_kernels import exchange, multicast, pair, send_registers, send_tile, shared_work
from .kernels import kernel
from .register_kernels import LAYOUTS, Layout

LOAD = "sh[r * 16 : r * 16 + 16, :], {0}[r * 16 : r * 16 + 16, :], {1}cta_mask={2}"
BAR = "mbar=bar.ptr_to([0]), "
AT_LEADER = "mbar=at_leader.ptr_to([0]), cta_group=2"

CLUSTER_WITNESSES = {
    "multicast": lambda: multicast(),
    "multicast without a barrier": lambda: multicast(load=LOAD.format("A", "", "15")),
    "multicast beyond the cluster": lambda: multicast(load=LOAD.format("A", BAR, "16")),
    "multicast that reports elsewhere": lambda: pair((AT_LEADER, AT_LEADER + ", cta_mask=3")),
    "multicast of strided elements": lambda: multicast(
        load="sh[:, 0:32], A2[:, :, 0], " + BAR + "cta_mask=15", params='A2: Tx.Buffer((64, 32, 2), "float16"), B: Tx.Buffer((256, 64), "float16")'),
    "multicast to padded rows": lambda: multicast(shared="TileLayout(S[(64, 64):(72, 1)])"),
    "pair": lambda: pair(),
    "pair, barrier of another": lambda: pair(("full.remote_view(0)", "full.remote_view(1 - r)"), ("r == 0", "r == 1")),
    "pair of one": lambda: pair((AT_LEADER, AT_LEADER[:-1] + "1")),
    "pair, mask beyond": lambda: pair((AT_LEADER, AT_LEADER + ", cta_mask=4")),
    "pair of strided elements": lambda: pair(
        ('A: Tx.Buffer((256, 64), "float16")', 'A: Tx.Buffer((256, 64, 2), "float16")'), ("A[r * 128 : r * 128 + 128, :]", "A[r * 128 : r * 128 + 128, :, 0]")),
    "pair to padded rows": lambda: pair(('layout=mma_shared_layout("float16", 3, (128, 64))', "layout=TileLayout(S[(128, 64) : (72, 1)])")),
    "dsmem": lambda: exchange(),
    "dsmem by a warp's threads": lambda: exchange(who="tid < 2"),
    "dsmem without a barrier": lambda: exchange("Tx.copy_async(to[:, :], sh[:, :], remote_cta_id=1 - r)"),
    "dsmem to nobody": lambda: exchange("Tx.copy_async(to[:, :], sh[:, :], mbar=bar.ptr_to([0]))"),
    "dsmem beyond the cluster": lambda: exchange("Tx.copy_async(to[:, :], sh[:, :], mbar=bar.ptr_to([0]), remote_cta_id=2)"),
    "dsmem from global memory": lambda: exchange("Tx.copy_async(to[:, :], A[0:64, :], mbar=bar.ptr_to([0]), remote_cta_id=1 - r)"),
    "dsmem to global memory": lambda: exchange("Tx.copy_async(B[0:64, :], sh[:, :], mbar=bar.ptr_to([0]), remote_cta_id=1 - r)"),
    "dsmem of columns": lambda: exchange(to="TileLayout(S[(64, 64):(1, 64)])"),
    "dsmem of two dtypes": lambda: exchange(
        "Tx.copy_async(bits[:, :], sh[:, :], mbar=bar.ptr_to([0]), remote_cta_id=1 - r)", before='bits = Tx.alloc_shared((64, 64), "uint16")'),
    "st.async": lambda: send_registers(),
    "st.async by a warp": lambda: send_registers("to[tid, :], v[:], mbar=bar.ptr_to([0]), remote_cta_id=1 - r", scope="warp"),
    "st.async without a barrier": lambda: send_registers("to[tid, :], v[:], remote_cta_id=1 - r"),
    "st.async to nobody": lambda: send_registers("to[tid, :], v[:], mbar=bar.ptr_to([0])"),
    "st.async to global memory": lambda: send_registers("B[tid, :], v[:], mbar=bar.ptr_to([0]), remote_cta_id=1 - r"),
    "st.async to columns": lambda: send_registers(to="TileLayout(S[(64, 8):(1, 64)])"),
    "st.async to odd places": lambda: send_registers(to="TileLayout(S[(64, 8):(9, 1)])"),
    "st.async of scattered registers": lambda: send_registers("to[tid, :], u[:], mbar=bar.ptr_to([0]), remote_cta_id=1 - r"),
    "cp.async to another CTA": lambda: exchange("Tx.copy_async(to[:, :], A[0:64, :], remote_cta_id=1 - r)"),
    "tma store of several": lambda: exchange("Tx.copy_async(B[0:64, :], sh[:, :], cta_mask=3)"),
    "st.async of two dtypes": lambda: send_registers("bits[tid, :], v[:], mbar=bar.ptr_to([0]), remote_cta_id=1 - r"),
}  # fmt: skip

def _tile(send: str = "", layout: str = "rows of a warpgroup", dtype: str = "float32", **changes: str):
    return lambda: send_tile(LAYOUTS[layout], dtype, send=send, **changes)


TO = "to[:, :], v[:, :], mbar=bar.ptr_to([0]), remote_cta_id=1 - r)"
CLUSTER_WITNESSES |= {
    "st.async of a tile": _tile(),
    "st.async of a tile by part of a warpgroup": _tile("if tid < 9:\n    Tx.wg.copy_async(" + TO),
    "st.async of a tile by a cluster": _tile("Tx.cluster.copy_async(" + TO),
    "st.async of a tile, two dtypes": _tile("Tx.wg.copy_async(bits[:, :], v[:, :], mbar=bar.ptr_to([0]), remote_cta_id=1 - r)"),
    "st.async of a tile to global memory": _tile("Tx.wg.copy_async(B[0:128, :], v[:, :], mbar=bar.ptr_to([0]), remote_cta_id=1 - r)"),
    "st.async of a tile to nobody": _tile("Tx.wg.copy_async(to[:, :], v[:, :], mbar=bar.ptr_to([0]))"),
    "st.async of a tile without a barrier": _tile("Tx.wg.copy_async(to[:, :], v[:, :], remote_cta_id=1 - r)"),
    "st.async of a warpgroup's tile by a warp": _tile("if w == 0:\n    Tx.warp.copy_async(" + TO),
    "st.async of everyone's registers": _tile("Tx.wg.copy_async(to[0, :], regs[:], mbar=bar.ptr_to([0]), remote_cta_id=1 - r)"),
    "st.async of a tile to columns": _tile(dtype="float16", to="TileLayout(S[(128, 16):(1, 128)])"),
    "st.async of a tile to odd places": _tile(to="TileLayout(S[(128, 16):(17, 1)])"),
    "st.async of scattered halves": _tile(layout="scattered registers", dtype="float16"),
    "st.async of halves of two columns in one byte": lambda: send_tile(
        Layout("warp", (32, 16), "S[(32, 2, 8):(1 @ laneid, 1, 2)]", 16), "float4_e2m1fn"),
}  # fmt: skip

TALL = 'A: Tx.Buffer((64, 72), "float16"), B: Tx.Buffer((64, 72), "{0}")'
COLUMNS = '{0} = Tx.decl_buffer((64, 72), "float16", data={1}.data, layout=TileLayout(S[(64, 72):(1, 64)]))'

SHARED_WORK = {
    "cluster": lambda: shared_work(),
    "part of a cluster": lambda: shared_work("if w == 0:\n    Tx.cluster.copy(B[:, :], A[:, :])"),
    "cluster, two dtypes": lambda: shared_work(params=TALL.format("int16")),
    "cluster, from shared memory": lambda: shared_work("Tx.cluster.copy(B[:, :], s[:, :])", before='s = Tx.alloc_shared((64, 72), "float16")'),
    "cluster, to shared memory": lambda: shared_work("Tx.cluster.copy(s[:, :], A[:, :])", before='s = Tx.alloc_shared((64, 72), "float16")'),
    "cluster, a region per CTA": lambda: shared_work("Tx.cluster.copy(B[r * 16 : r * 16 + 16, :], A[r * 16 : r * 16 + 16, :])"),
    "cluster, from columns": lambda: shared_work("Tx.cluster.copy(B[:, :], V[:, :])", before=COLUMNS.format("V", "A")),
    "cluster, to columns": lambda: shared_work("Tx.cluster.copy(V[:, :], A[:, :])", before=COLUMNS.format("V", "B")),
    "cluster, from odd places": lambda: shared_work("Tx.cluster.copy(B[:, 0:32], A[:, 1:33])"),
    "cluster, to odd places": lambda: shared_work("Tx.cluster.copy(B[:, 1:33], A[:, 0:32])"),
}  # fmt: skip
CLUSTER_WITNESSES.update(SHARED_WORK)


def _part(text: str, ctas: int = 2, dtype: str = "float32"):
    head = f"r = Tx.cta_id_in_cluster([{ctas}])\nb = Tx.cta_id([{ctas}])\ntid = Tx.thread_id([64])\n"
    params = ", ".join(f'{n}: Tx.Buffer((16, 16), "{dtype}")' for n in "ABD") + f', E: Tx.Buffer((16,), "{dtype}")'
    return lambda: kernel(head + text, params)


CLUSTER_WITNESSES |= {
    f"{what} by a cluster{name}": _part(before + call.format(**places))
    for what, call in (
        ("map", "Tx.cluster.add({D}, {A}, {B})"), ("reduce", "Tx.cluster.sum({E}, {A}, axes={axes})"),
        ("gemm", "Tx.cluster.gemm({D}, {A}, {B}, {B})"),
    )
    for name, before, places in (
        ("", "", {"D": "D[:, :]", "A": "A[:, :]", "B": "B[:, :]", "E": "E[:]", "axes": "1"}),
        (", partly", "if tid < 9:\n    ", {"D": "D[:, :]", "A": "A[:, :]", "B": "B[:, :]", "E": "E[:]", "axes": "1"}),
        (", in shared memory", "s = Tx.alloc_shared((16, 16), 'float32')\n",
         {"D": "D[:, :]", "A": "s[:, :]", "B": "B[:, :]", "E": "E[:]", "axes": "1"}),
        (", a region each", "", {"D": "D[r * 0 : r * 0 + 4, 0:4]", "A": "A[r * 4 : r * 4 + 4, 0:4]", "B": "B[0:4, 0:4]",
                                 "E": "E[0:4]", "axes": "1"}),
        (", overlapping", "", {"D": "A[4:8, 0:4]", "A": "A[2:6, 0:4]", "B": "B[0:4, 0:4]", "E": "A[3:7, 0]", "axes": "1"}),
        (", of another shape", "", {"D": "D[0:4, 0:5]", "A": "A[0:4, 0:4]", "B": "B[0:4, 0:4]", "E": "E[0:5]", "axes": "1"}),
    )
    if (what, name) not in (("map", ", of another shape"),)
}  # fmt: skip
CLUSTER_WITNESSES |= {
    f"tf32 by a cluster, {k}": _part(call, dtype="tfloat32")
    for k, call in enumerate(("Tx.cluster.sub(D[:, :], A[:, :], B[:, :])", "Tx.cluster.reduce_negate(E[:], A[:, :], 'sum')",
                              "Tx.cluster.gemm(D[:, :], A[:, :], B[:, :], B[:, :])"))
}  # fmt: skip
