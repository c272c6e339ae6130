"""Single semantic mutations of gemm_min.ptx; all of them assemble."""
import os, re, sys
src = open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "gemm_min.ptx")).read()
def sub(a, b, n=1):
    assert a in src, a
    return src.replace(a, b, n)
M={
'baseline':src,
'wrong idesc dtype (bf16 A)':sub('mov.b32   %r13, 0x08200010','mov.b32   %r13, 0x08200090'),
'idesc N=64':sub('0x08200010;','0x08100010;'),
'idesc M=64':sub('0x08200010;','0x04200010;'),
'idesc M=192 illegal':sub('0x08200010;','0x0c200010;'),
'idesc reserved bit 23':sub('0x08200010;','0x08a00010;'),
'desc swizzle none':src.replace('0x4000404000010000','0x0000404000010000'),
'desc swizzle 64B':src.replace('0x4000404000010000','0x8000404000010000'),
'desc swizzle invalid 3':src.replace('0x4000404000010000','0x6000404000010000'),
'desc version 0':src.replace('0x4000404000010000','0x4000004000010000'),
'desc SBO 512':src.replace('0x4000404000010000','0x4000402000010000'),
'k-advance wrong':sub('add.s64   %d8, %d2, 6','add.s64   %d8, %d2, 4'),
'k-advance past atom':sub('add.s64   %d8, %d2, 6','add.s64   %d8, %d2, 8'),
'first mma accumulates':sub('setp.ne.u32 %p4, %r13, %r13','setp.eq.u32 %p4, %r13, %r13'),
'no wait for TMA':sub('@!%p3 bra L_full;',''),
'no wait for MMA':sub('@!%p6 bra L_wait_done;',''),
'no commit':sub('tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r5];',''),
'expect_tx too small':sub('[%r4], 32768','[%r4], 16384'),
'expect_tx too large':sub('[%r4], 32768','[%r4], 32769'),
'no tcgen05.wait::ld':sub('tcgen05.wait::ld.sync.aligned;',''),
'no tcgen05.fence after MMA wait':sub('@!%p6 bra L_wait_done;\n    tcgen05.fence::after_thread_sync;','@!%p6 bra L_wait_done;'),
'no fence.mbarrier_init':sub('fence.mbarrier_init.release.cluster;',''),
'no fences at all':re.sub(r'\n\s*(tcgen05\.fence[^;]*|fence\.mbarrier[^;]*);[^\n]*','',src),
'no bar.sync before dealloc':src.replace('bar.sync  0;\n    @%p0 bra L_end;','@%p0 bra L_end;'),
'no bar.sync after alloc':src.replace('bar.sync  0;\n    tcgen05.fence::after_thread_sync;\n    ld.shared','tcgen05.fence::after_thread_sync;\n    ld.shared'),
'no dealloc':sub('tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r9, 128;',''),
'alloc 64 columns, uses 128':src.replace('[%r8], 128;','[%r8], 64;').replace('%r9, 128;','%r9, 64;'),
'warp reads foreign lanes':sub('shl.b32   %r14, %r1, 21','shl.b32   %r14, %r1, 22'),
'wrong phase parity':sub('%p6, [%r5], 0;','%p6, [%r5], 1;'),
'swapped A/B tile coords':sub('[%d0, {%r10, %r3}]','[%d0, {%r10, %r2}]'),
'store row stride wrong':sub('shl.b64   %d11, %d11, 2;','shl.b64   %d11, %d11, 1;'),
'smem tile misaligned':src.replace('.shared .align 1024 .b8 sB','.shared .align 16 .b8 pad[16];\n .shared .align 16 .b8 sB'),
'mbarrier count 2':sub('mbarrier.init.shared::cta.b64 [%r5], 1','mbarrier.init.shared::cta.b64 [%r5], 2'),
'alloc by thread 0 only':sub('@%p0 bra L_sync0;\n    bar.warp.sync 0xffffffff;','@%p1 bra L_sync0;'),
}
if __name__ == "__main__":
    os.makedirs(sys.argv[1], exist_ok=True)
    for k, s in M.items():
        open(os.path.join(sys.argv[1], re.sub(r"[^a-z0-9]+", "_", k.lower()).strip("_") + ".ptx"), "w").write(s)
