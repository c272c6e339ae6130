"""A frame for tcgen05 experiments: shared memory and tensor memory start from given images, a body runs, both come back.

``BODY`` is executed by thread 0 of CTA rank 0 between the fences and the commit, ``WARPS`` by all threads.
"""

import numpy as np

from tirx_eq.sim import Launch, simulate

BYTES = 65536


def regs(name, first, count):
    return "{" + ",".join(f"%{name}{first + i}" for i in range(count)) + "}"


def frame(body, warps="", group=1, commit=True, extra="", columns=128):
    """PTX of a kernel with parameters smem, tmem, params (u64 array), out."""
    fills = "\n".join(
        f"""    ld.global.v4.b32 {regs('v', 4 * i, 4)}, [%d1+{16 * i}];""" for i in range(8))
    stores = "\n".join(
        f"""    st.global.v4.b32 [%d3+{16 * i}], {regs('v', 4 * i, 4)};""" for i in range(8))
    mask = "" if group == 1 else ".multicast::cluster"
    tail = "" if group == 1 else ", 3"
    return f"""
.version 8.8
.target sm_100a
.address_size 64
.visible .entry frame(.param .u64 smem, .param .u64 tmem, .param .u64 params, .param .u64 out) {{
    .shared .align 1024 .b8 image[{BYTES}];
    .shared .align 8 .b64 done;
    .shared .align 4 .b32 base;
    .reg .pred %p<8>; .reg .b32 %r<64>; .reg .b32 %v<128>; .reg .b64 %d<32>; .reg .b64 %x<32>; .reg .b32 %y<32>;
    mov.u32 %r0, %tid.x;
    mov.u32 %r1, %cluster_ctarank;
    mov.u32 %r2, image;
    mov.u32 %r3, done;
    mov.u32 %r4, base;
    shr.u32 %r5, %r0, 5;
    ld.param.u64 %d0, [smem];
    ld.param.u64 %d1, [tmem];
    ld.param.u64 %d2, [params];
    ld.param.u64 %d3, [out];
    mul.wide.u32 %d4, %r1, {BYTES};
    add.u64 %d0, %d0, %d4;
    mul.wide.u32 %d4, %r1, {128 * 512 * 4};
    mad.wide.u32 %d4, %r0, 2048, %d4;
    add.u64 %d1, %d1, %d4;
    add.u64 %d3, %d3, %d4;
    setp.ne.u32 %p0, %r0, 0;
    @%p0 bra L0;
    mbarrier.init.shared::cta.b64 [%r3], 1;
    fence.mbarrier_init.release.cluster;
L0:
    setp.ne.u32 %p1, %r5, 0;
    @%p1 bra L1;
    bar.warp.sync 0xffffffff;
    tcgen05.alloc.cta_group::{group}.sync.aligned.shared::cta.b32 [%r4], 512;
    tcgen05.relinquish_alloc_permit.cta_group::{group}.sync.aligned;
L1:
    shl.b32 %r6, %r0, 4;
L2:
    cvt.u64.u32 %d5, %r6;
    add.u64 %d5, %d0, %d5;
    ld.global.v4.b32 {regs('v', 0, 4)}, [%d5];
    add.u32 %r7, %r2, %r6;
    st.shared.v4.b32 [%r7], {regs('v', 0, 4)};
    add.u32 %r6, %r6, 2048;
    setp.lt.u32 %p2, %r6, {BYTES};
    @%p2 bra L2;
    fence.proxy.async.shared::cta;
    bar.sync 0;
    ld.shared.b32 %r8, [%r4];
    shl.b32 %r9, %r5, 21;
    add.u32 %r9, %r8, %r9;
    mov.u32 %r10, 0;
L3:
{fills}
    tcgen05.st.sync.aligned.32x32b.x32.b32 [%r9], {regs('v', 0, 32)};
    add.u64 %d1, %d1, 128;
    add.u32 %r9, %r9, 32;
    add.u32 %r10, %r10, 1;
    setp.lt.u32 %p3, %r10, {columns // 32};
    @%p3 bra L3;
    tcgen05.wait::st.sync.aligned;
    sub.u32 %r9, %r9, {columns};
    tcgen05.fence::before_thread_sync;
    {'bar.sync 0;' if group == 1 else 'barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;'}
    tcgen05.fence::after_thread_sync;
    {extra}
    {warps}
    {'' if commit else 'bra LDUMP;'}
    or.b32 %r11, %r0, %r1;
    setp.ne.u32 %p4, %r11, 0;
    @%p4 bra L4;
    setp.ne.u32 %p6, %r0, %r0;
    setp.eq.u32 %p5, %r0, %r0;
    {body}
    tcgen05.commit.cta_group::{group}.mbarrier::arrive::one.shared::cluster{mask}.b64 [%r3]{tail};
L4:
    mbarrier.try_wait.parity.shared::cta.b64 %p7, [%r3], 0;
    @!%p7 bra L4;
    bar.warp.sync 0xffffffff;
    tcgen05.fence::after_thread_sync;
LDUMP:
    mov.u32 %r10, 0;
L5:
    tcgen05.ld.sync.aligned.32x32b.x32.b32 {regs('v', 0, 32)}, [%r9];
    tcgen05.wait::ld.sync.aligned;
{stores}
    add.u64 %d3, %d3, 128;
    add.u32 %r9, %r9, 32;
    add.u32 %r10, %r10, 1;
    setp.lt.u32 %p3, %r10, {columns // 32};
    @%p3 bra L5;
    tcgen05.fence::before_thread_sync;
    {'bar.sync 0;' if group == 1 else 'barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;'}
    @%p1 bra L6;
    tcgen05.fence::after_thread_sync;
    tcgen05.dealloc.cta_group::{group}.sync.aligned.b32 %r8, 512;
L6:
    ret;
}}
"""


def run(body, smem=None, tmem=None, params=(0,), warps="", group=1, commit=True, policy="late", extra="", faults=False,
        columns=128, target="sm_100a"):
    """Run the frame; returns tensor memory afterwards, shape (group, 128, 512) uint32.

    ``smem``: list of byte arrays, one per CTA; ``tmem``: array (group, 128, 512); ``params``: 64-bit constants that
    the body finds in %x0...; only the first ``columns`` columns are filled and read back.
    """
    image = np.zeros((group, BYTES), np.uint8)
    for i, part in enumerate(smem or []):
        image[i, : len(part)] = part
    start = np.zeros((group, 128, 512), np.uint32) if tmem is None else np.asarray(tmem, np.uint32).reshape(group, 128, 512)
    loads = "\n".join(f"    ld.global.u64 %x{i}, [%d2+{8 * i}]; cvt.u32.u64 %y{i}, %x{i};" for i in range(len(params)))
    source = frame(body, warps, group, commit, loads + extra, columns).replace("sm_100a", target)
    values = np.array([p & (2**64 - 1) for p in params], np.uint64)
    launch = Launch((group, 1, 1), (128, 1, 1), (group, 1, 1))
    result = simulate(source, "frame", launch, [image, start, values, np.zeros_like(start)], policy=policy)
    if not faults:
        result.raise_for_faults()
        assert not result.warnings
    return result if faults else result.arrays["out"]


# -- independent statements of layouts ------------------------------------------------------------------------------
CELLS = {0: 1, 6: 2, 4: 4, 2: 8}


def cell_of(row, cell, cells):
    """Where the 16-byte cell of a row of an 8-row swizzle atom is stored (ISA figures of the swizzling modes)."""
    return cell ^ (row * cells >> 3)


def place(matrix, mode, k_major, start=0):
    """Bytes of shared memory for a matrix (rows, row bytes) whose rows run along K (or, if not ``k_major``, whose rows
    are K and run along M/N).  Returns (image, LBO, SBO)."""
    rows, width = matrix.shape
    image = np.zeros(start + rows * width, np.uint8)
    cells = CELLS[mode]
    span = 16 * cells
    groups = rows // 8
    for r in range(rows):
        for b in range(0, width, 16):
            column, cell = divmod(b // 16, cells)
            at = start + column * groups * 8 * span + r // 8 * 8 * span + r % 8 * span + 16 * cell_of(r % 8, cell, cells)
            image[at : at + 16] = matrix[r, b : b + 16]
    column_pitch, group_pitch = groups * 8 * span, 8 * span
    if k_major:
        return image, column_pitch, group_pitch
    if mode == 0:
        return image, group_pitch, column_pitch
    return image, column_pitch, group_pitch


def descriptor(offset, leading, stride, mode):
    """A matrix descriptor without its start address, which the body adds (image + offset)."""
    return offset >> 4 | (leading >> 4) << 16 | (stride >> 4) << 32 | 1 << 46 | mode << 61


#: registers %x{a} and %x{b} hold descriptors relative to the image: make them absolute
def absolute(*numbers):
    lines = ["    shr.u32 %r20, %r2, 4; and.b32 %r20, %r20, 0x3fff; cvt.u64.u32 %d20, %r20;"]
    return "\n".join(lines + [f"    add.u64 %x{n}, %x{n}, %d20;" for n in numbers])
