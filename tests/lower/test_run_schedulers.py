"""Tile schedulers of the helper library, compiled and run: each tile once, in the order that their description gives."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from tirx_eq.interp.run import interpret
from tirx_eq.lower.kernel import compile_function
from tirx_eq.ptx.descriptor import MatrixDescriptor
from tirx_eq.ptx.ptxas import assemble, find_tool

from .kernels import kernel

IMPORTS = (
    "from tirx_eq.script.lang import ClusterLaunchControlScheduler, ClusterPersistentScheduler2D, FlashAttentionLPTScheduler, "
    "GroupMajor3D, IndexedTripleTileScheduler, SmemDescriptor\n"
)


def visits(made: str, coordinates: str, shape: tuple[int, ...], ctas: int, extra: str = "", *given: np.ndarray) -> np.ndarray:
    """For each tile the number (from 1) of its visit, CTA i's k-th being 100 i + k + 1; a second visit of a tile adds to it."""
    dims = ", ".join(map(str, shape))
    func = kernel(
        f"b = Tx.cta_id([{ctas}])\nt = Tx.thread_id([32])\ns = {made}\nk = Tx.local_scalar('int32')\nk = 1\ns.init(b)\n"
        f"while s.valid():\n    if t == 0:\n        D[{coordinates}] = D[{coordinates}] + b * 100 + k\n    k = k + 1\n"
        "    s.next_tile()",
        f'D: Tx.Buffer(({dims},), "int32"){extra}', IMPORTS,
    )  # fmt: skip
    compiled = compile_function(func)
    arrays = [np.zeros(shape, np.int32), *given]
    ran = compiled.simulate(*arrays)
    assert not ran.faults, [str(f) for f in ran.faults[:3]]
    np.testing.assert_array_equal(ran.arrays["D"], interpret(func, *arrays)["D"])
    if find_tool("ptxas") is not None:
        assert assemble(compiled.ptx, "sm_100a").spill_stores == 0
    return ran.arrays["D"]


def numbered(order: list[tuple[int, ...]], shape: tuple[int, ...], ctas: int) -> np.ndarray:
    """What :func:`visits` finds if CTAs stride over this order."""
    found = np.zeros(shape, np.int32)
    for i, tile in enumerate(order):
        found[tile] += i % ctas * 100 + i // ctas + 1
    return found


def serpentine(rows: int, columns: int, side: int) -> list[tuple[int, int]]:
    order = []
    for column in range(columns // side):
        blocks = range(rows // side)
        for row in blocks if column % 2 == 0 else reversed(blocks):
            order += [(row * side + i, column * side + j) for i in range(side) for j in range(side)]
    covered = columns // side * side
    order += [(i, j) for i in range(rows) for j in range(covered, columns)]
    return order + [(i, j) for i in range(rows // side * side, rows) for j in range(covered)]


@pytest.mark.parametrize(("rows", "columns", "side"), [(4, 4, 2), (5, 7, 2), (6, 5, 3), (3, 6, 4), (6, 2, 4), (7, 4, 2)])
def test_serpentine_order(rows, columns, side):
    made = f"ClusterPersistentScheduler2D('s', {rows}, {columns}, 3, l2_group_size={side}, serpentine=True)"
    got = visits(made, "s.m_idx, s.n_idx", (rows, columns), 3)
    np.testing.assert_array_equal(got, numbered(serpentine(rows, columns, side), (rows, columns), 3))


def test_serpentine_order_as_documented():
    """The picture in TVM's description: down in the first column of blocks, up in the second."""
    picture = [[0, 1, 14, 15], [2, 3, 12, 13], [4, 5, 10, 11], [6, 7, 8, 9]]
    order = serpentine(4, 4, 2)
    ours = np.zeros((4, 4), int)
    for i, tile in enumerate(order):
        ours[tile] = i
    # Within a block rows go downwards, also where blocks go upwards.
    assert ours[:, :2].tolist() == [row[:2] for row in picture]
    assert ours[2:, 2:].tolist() == [[8, 9], [10, 11]] and ours[:2, 2:].tolist() == [[12, 13], [14, 15]]


def test_serpentine_with_rows_known_at_run_time():
    func = kernel(
        "b = Tx.cta_id([2])\nt = Tx.thread_id([32])\n"
        "s = ClusterPersistentScheduler2D('s', rows, 5, 2, l2_group_size=2, serpentine=True)\ns.init(b)\n"
        "while s.valid():\n    if t == 0:\n        D[s.m_idx, s.n_idx] = D[s.m_idx, s.n_idx] + s.linear_idx + 1\n"
        "    s.next_tile()",
        'D: Tx.Buffer((9, 5), "int32"), rows: Tx.int32', IMPORTS,
    )  # fmt: skip
    for rows in (1, 4, 7):
        wanted = interpret(func, np.zeros((9, 5), np.int32), rows)["D"]
        assert sorted(wanted[:rows].ravel()) == list(range(1, rows * 5 + 1)) and not wanted[rows:].any()
        for i, tile in enumerate(serpentine(rows, 5, 2)):
            assert wanted[tile] == i + 1


@pytest.mark.parametrize(("rows", "columns", "depth", "group"), [(6, 3, 2, 4), (4, 2, 3, 2), (3, 2, 2, 5)])
def test_grouped_tiles_in_three_dimensions(rows, columns, depth, group):
    order = []
    for first in range(0, rows, group):
        members = range(first, min(rows, first + group))
        order += [(m, n, k) for k in range(depth) for n in range(columns) for m in members]
    shape = (rows, columns, depth)
    got = visits(f"GroupMajor3D('s', {rows}, {columns}, {depth}, {group}, step=4)", "s.m_idx, s.n_idx, s.k_idx", shape, 4)
    np.testing.assert_array_equal(got, numbered(order, shape, 4))


@pytest.mark.parametrize(("batches", "heads", "blocks", "swizzle", "ctas"), [(2, 3, 4, 2, 5), (2, 3, 3, 4, 4), (1, 2, 4, 4, 8)])
def test_longest_tasks_first(batches, heads, blocks, swizzle, ctas):
    order = []
    for first in range(0, batches * heads, swizzle):
        members = range(first, min(batches * heads, first + swizzle))
        order += [(h // heads, h % heads, blocks - 1 - m) for m in range(blocks) for h in members]
    shape = (batches, heads, blocks)
    place = "s.batch_idx, s.head_idx, s.m_block_idx"
    got = visits(f"FlashAttentionLPTScheduler('s', {batches}, {heads}, {blocks}, {swizzle}, {ctas})", place, shape, ctas)
    np.testing.assert_array_equal(got, numbered(order, shape, ctas))
    total = batches * heads * blocks
    single = visits(f"FlashAttentionLPTScheduler('s', {batches}, {heads}, {blocks}, {swizzle})", place, shape, total)
    np.testing.assert_array_equal(single, numbered(order, shape, total))


def test_tasks_from_lists():
    rng = np.random.default_rng(1)
    tasks = [t for t in product(range(2), range(3), range(4)) if rng.random() < 0.7]
    rng.shuffle(tasks)
    starts = np.array([0, 3, 3, 9, len(tasks)], np.int32)
    lists = [np.array([*(t[k] for t in tasks), 0], np.int32) for k in range(3)]
    extra = "".join(f', {n}: Tx.Buffer(({len(tasks) + 1},), "int32")' for n in "BHQ") + ', P: Tx.Buffer((5,), "int32")'
    made, place = "IndexedTripleTileScheduler('s', B, H, Q, P)", "s.b_idx, s.h_idx, s.q_idx"
    got = visits(made, place, (2, 3, 4), 4, extra, *lists, starts)
    wanted = np.zeros((2, 3, 4), np.int32)
    for cta in range(4):
        for k, i in enumerate(range(starts[cta], starts[cta + 1])):
            wanted[tuple(tasks[i])] += cta * 100 + k + 1
    np.testing.assert_array_equal(got, wanted)


CONTROLLED = """
{ids}
t = Tx.thread_id([96])
w = Tx.warp_id([3])
lane = Tx.lane_id([32])
pool = Tx.SMEMPool()
clc = ClusterLaunchControlScheduler(pool, 3, 2, 2, {size}, {arrivals})
tile = clc.worker("tile")
blind = clc.worker("blind")
pool.commit()
Tx.ptx.fence.mbarrier_init()
Tx.cuda.cluster_sync()
if w == 0:
    clc.run_scheduler(r)
elif w == 1:
    if Tx.ptx.elect_sync():
        tile.init(c // {size})
        while tile.valid():
            D[tile.m_idx, tile.n_idx, r] = D[tile.m_idx, tile.n_idx, r] + 1
            tile.consume()
            tile.advance_coords()
            tile.mark_done_if_drained()
else:
    if Tx.ptx.elect_sync():
        blind.reset()
        while blind.valid():
            Tx.cuda.atomic_add(Tx.address_of(E[r]), Tx.int32(1))
            blind.consume()
            blind.mark_done_if_drained()
Tx.cuda.cluster_sync()
"""


@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.parametrize("policy", ["late", "early", "random"])
def test_launch_control(size, policy):
    """Three roles: one asks, one works on tiles, one keeps step without coordinates; each tile is worked on once."""
    ids = f"c = Tx.cta_id([{6 * size}])\nr = Tx.cta_id_in_cluster([{size}])"
    func = kernel(
        CONTROLLED.format(ids=ids, size=size, arrivals=3 * size),
        f'D: Tx.Buffer((3, 2, {size}), "int32"), E: Tx.Buffer(({size},), "int32")', IMPORTS,
    )  # fmt: skip
    made = compile_function(func)
    ran = made.simulate(np.zeros((3, 2, size), np.int32), np.zeros(size, np.int32), policy=policy)
    assert not ran.faults, [str(f) for f in ran.faults[:3]]
    np.testing.assert_array_equal(ran.arrays["D"], 1)
    np.testing.assert_array_equal(ran.arrays["E"], 6)  # as many rounds as tiles
    assert "clusterlaunchcontrol.try_cancel" in made.ptx
    if find_tool("ptxas") is not None:
        assemble(made.ptx, "sm_100a")


@pytest.mark.parametrize("uniform", [False, True])
def test_matrix_descriptors(uniform):
    func = kernel(
        "t = Tx.thread_id([32])\npool = Tx.SMEMPool()\na = pool.alloc((64, 64), 'float16', align=1024)\npool.commit()\n"
        "d = SmemDescriptor()\nd.init(a.ptr_to([0, 0]), 1, 64, 3)\n" + ("d.make_lo_uniform()\n" if uniform else "")
        + "D[t, 0] = d.desc\nD[t, 1] = d.add_16B_offset(4)\nD[t, 2] = d.add_16B_offset(t)",
        'D: Tx.Buffer((32, 3), "uint64")', IMPORTS,
    )  # fmt: skip
    made = compile_function(func)
    ran = made.simulate(np.zeros((32, 3), np.uint64))
    assert not ran.faults, [str(f) for f in ran.faults[:3]]
    base = int(ran.arrays["D"][0, 0]) & 0x3FFF
    wanted = MatrixDescriptor(base * 16, 16, 1024, "128B").encode()
    lanes = np.arange(32)
    further = np.stack([0 * lanes, 0 * lanes + 4, lanes], 1).astype(np.uint64)
    np.testing.assert_array_equal(ran.arrays["D"], further + np.uint64(wanted))
    if find_tool("ptxas") is not None:
        assemble(made.ptx, "sm_100a")
