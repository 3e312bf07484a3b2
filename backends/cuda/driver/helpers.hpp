// The driver's own kernels, as PTX: the driver compiles them for the GPU at hand.
#pragma once

namespace portakern::cuda {

// empty: does nothing.
//
// flush(pointer, vectors): reads `vectors` times 16 bytes and writes nothing (the memory
// holds zeros, so the store is never reached; without it the reads would be dead code).
//
// gate(pointer, value): waits until the word, in host memory, has reached `value`, comparing as cuStreamWaitValue32 with
// CU_STREAM_WAIT_VALUE_GEQ does.
inline constexpr char helpers_ptx[] = R"ptx(
.version 7.0
.target sm_80
.address_size 64

.visible .entry pk_empty() { ret; }

.visible .entry pk_flush(.param .u64 memory, .param .u64 vectors)
{
    .reg .pred %more, %found;
    .reg .b32 %r<8>;
    .reg .b32 %a<16>;
    .reg .b32 %sum;
    .reg .b64 %base, %count, %at, %step, %address, %stride;

    ld.param.u64 %base, [memory];
    ld.param.u64 %count, [vectors];
    mov.u32 %r0, %ctaid.x;
    mov.u32 %r1, %ntid.x;
    mov.u32 %r2, %tid.x;
    mov.u32 %r3, %nctaid.x;
    mul.wide.u32 %at, %r0, %r1;
    cvt.u64.u32 %step, %r2;
    add.u64 %at, %at, %step;
    mul.wide.u32 %step, %r3, %r1;
    shl.b64 %stride, %step, 4;
    mov.b32 %sum, 0;
    setp.lt.u64 %more, %at, %count;
    @!%more bra DONE;
LOOP:
    shl.b64 %address, %at, 4;
    add.u64 %address, %base, %address;
    ld.global.cg.v4.u32 {%a0, %a1, %a2, %a3}, [%address];
    or.b32 %a0, %a0, %a1;
    or.b32 %a2, %a2, %a3;
    or.b32 %a0, %a0, %a2;
    or.b32 %sum, %sum, %a0;
    add.u64 %at, %at, %step;
    setp.lt.u64 %more, %at, %count;
    @%more bra LOOP;
DONE:
    setp.ne.u32 %found, %sum, 0;
    @%found st.global.u32 [%base], %sum;
    ret;
}

.visible .entry pk_gate(.param .u64 word, .param .u32 value)
{
    .reg .pred %closed;
    .reg .b32 %want, %have;
    .reg .b64 %address;

    ld.param.u64 %address, [word];
    ld.param.u32 %want, [value];
WAIT:
    ld.volatile.global.u32 %have, [%address];
    sub.s32 %have, %have, %want;
    setp.lt.s32 %closed, %have, 0;
    @%closed bra WAIT;
    ret;
}
)ptx";

}  // namespace portakern::cuda
