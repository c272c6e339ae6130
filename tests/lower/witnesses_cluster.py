"""Kernels that one condition each keeps from a lowering to other CTAs of the cluster."""

from __future__ import annotations

from .cluster_kernels import exchange, halves, multicast, pair, send_registers

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
    "st.async by nobody": lambda: send_registers(who="tid == 99"),
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

__all__ = ["CLUSTER_WITNESSES", "halves"]
