"""Kernels that jax, Mosaic or libtpu refuse, each for another reason: what their errors are turned into is tested on them.

Every text defines ``run(x, ...)``; ``kind`` is the kind of the error without its ``compile-``, ``line`` a piece of the line
that it must point at.
"""

from __future__ import annotations

from dataclasses import dataclass

HEAD = """\
import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu


TABLE = np.arange(256, dtype=np.float32)


def call(kernel, shape, dtype, *args, **more):
    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(shape, dtype), **more)(*args)


"""


@dataclass(frozen=True)
class Refused:
    name: str
    kind: str
    body: str
    args: str
    line: str = ""
    device: str = "v5e"

    @property
    def text(self) -> str:
        return HEAD + self.body


def refused(name: str, kind: str, kernel: str, result: str, args: str, line: str = "", device: str = "v5e") -> Refused:
    """``kernel`` is the body of ``kernel(...)``, ``result`` the arguments of ``call`` after the kernel."""
    arrays = [a.split("=")[0].strip() for a in args.replace("],", "];").split(";")]
    lines = "".join(f"    {x}\n" for x in kernel.splitlines())
    body = f"def kernel(*refs):\n{lines}\n\ndef run({', '.join(arrays)}):\n    return call(kernel, {result})\n"
    return Refused(name, kind, body, args, line or kernel.splitlines()[-1].strip(), device)


X = "x=f32[256,256]"
ONE = "x_ref, o_ref = refs\n"
TWO = "x_ref, y_ref, o_ref = refs\n"

REFUSED = (
    refused("block shape", "block-shape", ONE + "o_ref[:, :100] = x_ref[...]",
            "(256, 256), jnp.float32, x, grid=(2,), in_specs=[pl.BlockSpec((256, 100), lambda i: (0, i))], "
            "out_specs=pl.BlockSpec((256, 128), lambda i: (0, i))", X, "pl.pallas_call"),
    refused("1-D block", "block-shape", ONE + "o_ref[...] = x_ref[...]",
            "(4096,), jnp.float32, x, grid=(8,), in_specs=[pl.BlockSpec((500,), lambda i: (i,))], "
            "out_specs=pl.BlockSpec((500,), lambda i: (i,))", "x=f32[4096]", "pl.pallas_call"),
    refused("VMEM", "vmem", ONE + "o_ref[...] = x_ref[...] + 1",
            "(8192, 8192), jnp.float32, x, grid=(2,), in_specs=[pl.BlockSpec((4096, 8192), lambda i: (i, 0))], "
            "out_specs=pl.BlockSpec((4096, 8192), lambda i: (i, 0))", "x=f32[8192,8192]", "pl.pallas_call"),
    refused("scratch beyond VMEM", "vmem", "x_ref, o_ref, s_ref = refs\ns_ref[...] = "
            "jnp.zeros_like(s_ref)\no_ref[...] = x_ref[...] + s_ref[:256, :256]",
            "(256, 256), jnp.float32, x, scratch_shapes=[pltpu.VMEM((8192, 8192), jnp.float32)]", X, "pl.pallas_call"),
    refused("f16", "dtype", ONE + "o_ref[...] = x_ref[...] + x_ref[...]", "(256, 256), jnp.float16, x", "x=f16[256,256]"),
    refused("f64 result", "dtype", ONE + "o_ref[...] = x_ref[...].astype(jnp.complex64)", "(256, 256), jnp.complex64, x", X),
    refused("int8 product on v4", "matrix-dtype", TWO + "o_ref[...] = jnp.dot(x_ref[...], y_ref[...], "
            "preferred_element_type=jnp.int32)",
            "(256, 256), jnp.int32, x, y", "x=i8[256,256],y=i8[256,256]", device="v4"),
    refused("int32 product", "matrix-dtype", TWO + "o_ref[...] = jnp.dot(x_ref[...], y_ref[...], "
            "preferred_element_type=jnp.int32)",
            "(256, 256), jnp.int32, x, y", "x=i32[256,256],y=i32[256,256]"),
    refused("bf16 accumulator of a product", "matrix-dtype", TWO + "o_ref[...] = jax.lax.dot_general(x_ref[...], "
            "y_ref[...], (((1,), (0,)), ((), ())), preferred_element_type=jnp.bfloat16)",
            "(256, 256), jnp.bfloat16, x, y", "x=bf16[256,256],y=bf16[256,256]"),
    refused("precision HIGH", "precision", TWO + "o_ref[...] = jnp.dot(x_ref[...], y_ref[...], "
            "precision=jax.lax.Precision.HIGH)",
            "(256, 256), jnp.float32, x, y", "x=f32[256,256],y=f32[256,256]"),
    refused("cumsum", "missing-op", ONE + "o_ref[...] = jnp.cumsum(x_ref[...], axis=1)", "(256, 256), jnp.float32, x", X),
    refused("sort", "missing-op", ONE + "o_ref[...] = jnp.sort(x_ref[...], axis=1)", "(256, 256), jnp.float32, x", X),
    refused("convolution", "missing-op", TWO + "o_ref[...] = jax.lax.conv(x_ref[...], y_ref[...], (1, 1), 'SAME')",
            "(1, 8, 16, 128), jnp.float32, x, y", "x=f32[1,8,16,128],y=f32[8,8,3,3]"),
    refused("gather of rows", "gather", TWO + "o_ref[...] = x_ref[...][y_ref[0, :], :]", "(256, 256), jnp.float32, x, y",
            "x=f32[256,256],y=i32[1,256]"),
    refused("strided slice", "strided-slice", ONE + "o_ref[...] = x_ref[...][::2, :]", "(128, 256), jnp.float32, x", X),
    refused("float iota", "iota", ONE + "o_ref[...] = x_ref[...] + jax.lax.broadcasted_iota(jnp.float32, (256, 256), 0)",
            "(256, 256), jnp.float32, x", X),
    refused("reshape across lanes", "reshape", ONE + "o_ref[...] = x_ref[...].reshape(512, 96)", "(512, 96), "
            "jnp.float32, x", "x=f32[256,192]"),
    refused("dynamic lane slice", "unaligned", "i_ref, x_ref, o_ref = refs\no_ref[...] = x_ref[:, pl.ds(i_ref[0], 128)]",
            "(256, 128), jnp.float32, i, x, in_specs=[pl.BlockSpec(memory_space=pltpu.SMEM), "
            "pl.BlockSpec(memory_space=pltpu.VMEM)]",
            "i=i32[1],x=f32[256,512]"),
    refused("unaligned copy", "unaligned", "x_ref, o_ref, s_ref, sem = refs\npltpu.sync_copy(x_ref.at[:, pl.ds(3, "
            "100)], s_ref)\no_ref[...] = s_ref[...]",
            "(256, 100), jnp.float32, x, in_specs=[pl.BlockSpec(memory_space=pl.ANY)], "
            "scratch_shapes=[pltpu.VMEM((256, 100), jnp.float32), pltpu.SemaphoreType.DMA]",
            X, "pltpu.sync_copy"),
    refused("captured array", "constant", ONE + "o_ref[...] = x_ref[...] + jnp.asarray(TABLE)", "(256, 256), "
            "jnp.float32, x", X, "pl.pallas_call"),
    refused("array in HBM used directly", "memory-space", ONE + "o_ref[...] = x_ref[...] * 2",
            "(256, 256), jnp.float32, x, in_specs=[pl.BlockSpec(memory_space=pl.ANY)]", X),
    refused("wrong dtype stored", "store-dtype", ONE + "o_ref[...] = jnp.sum(x_ref[...].astype(jnp.bfloat16), 1, "
            "keepdims=True).astype(jnp.bfloat16) > 0",
            "(256, 1), jnp.int32, x", X),
    refused("wrong shape stored", "store-shape", ONE + "o_ref[...] = x_ref[:, :128]", "(256, 256), jnp.float32, x", X),
    refused("semantics too short", "semantics", ONE + "o_ref[...] = x_ref[...]",
            "(256, 256), jnp.float32, x, grid=(2, 2), in_specs=[pl.BlockSpec((128, 128), lambda i, j: (i, j))], "
            "out_specs=pl.BlockSpec((128, 128), lambda i, j: (i, j)), "
            "compiler_params=pltpu.CompilerParams(dimension_semantics=('parallel',))",
            X, "pl.pallas_call"),
    refused("index map of the wrong rank", "index-map", ONE + "o_ref[...] = x_ref[...]",
            "(256, 256), jnp.float32, x, grid=(2,), in_specs=[pl.BlockSpec((128, 256), lambda i: (i,))], "
            "out_specs=pl.BlockSpec((128, 256), lambda i: (i, 0))", X, "pl.pallas_call"),
    refused("index map of the wrong arity", "index-map", ONE + "o_ref[...] = x_ref[...]",
            "(256, 256), jnp.float32, x, grid=(2, 2), in_specs=[pl.BlockSpec((128, 256), lambda i: (i, 0))], "
            "out_specs=pl.BlockSpec((128, 256), lambda i, j: (i, 0))", X, "pl.pallas_call"),
    refused("block of another rank", "block-rank", ONE + "o_ref[...] = x_ref[...]",
            "(256, 256), jnp.float32, x, grid=(2,), in_specs=[pl.BlockSpec((128,), lambda i: (i,))], "
            "out_specs=pl.BlockSpec((128, 256), lambda i: (i, 0))", X, "pl.pallas_call"),
    refused("kernel of other arity", "kernel-arguments", "x_ref, o_ref, s_ref = refs\no_ref[...] = x_ref[...]",
            "(256, 256), jnp.float32, x", X,
            "x_ref, o_ref, s_ref"),
    refused("Python branch on data", "traced-branch", ONE + "if x_ref[0, 0] > 0:\n    o_ref[...] = x_ref[...]",
            "(256, 256), jnp.float32, x", X,
            "if x_ref[0, 0]"),
    refused("asks to be interpreted", "interpret", ONE + "o_ref[...] = x_ref[...]", "(256, 256), jnp.float32, x, "
            "interpret=True", X,
            "pl.pallas_call"),
    refused("HBM", "hbm", ONE + "o_ref[...] = x_ref[...] + 1",
            "(65536, 65536), jnp.float32, x, grid=(512, 512), in_specs=[pl.BlockSpec((128, 128), lambda i, j: (i, j))], "
            "out_specs=pl.BlockSpec((128, 128), lambda i, j: (i, j))", "x=f32[65536,65536]", "pl.pallas_call"),
    refused("result without dims", "block-rank", ONE + "o_ref[...] = jnp.sum(x_ref[...])", "(), jnp.float32, x", X,
            "pl.pallas_call"),
    refused("block of an array in HBM", "memory-space", ONE + "o_ref[...] = x_ref[...]",
            "(256, 256), jnp.float32, x, grid=(2,), out_specs=pl.BlockSpec((128, 256), lambda i: (i, 0)), "
            "in_specs=[pl.BlockSpec((128, 256), lambda i: (i, 0), memory_space=pl.ANY)]", X, "pl.pallas_call"),
    refused("scratch beyond SMEM", "smem", "x_ref, o_ref, s_ref = refs\ns_ref[0] = 1\no_ref[...] = x_ref[...]",
            "(256, 256), jnp.float32, x, scratch_shapes=[pltpu.SMEM((1 << 22,), jnp.int32)]", X, "pl.pallas_call"),
    refused("indices beyond SMEM", "smem", "i_ref, x_ref, o_ref = refs\no_ref[...] = x_ref[...]",
            "(256, 256), jnp.float32, i, x, grid_spec=pltpu.PrefetchScalarGridSpec(num_scalar_prefetch=1, grid=(2,), "
            "in_specs=[pl.BlockSpec((128, 256), lambda n, i: (n, 0))], "
            "out_specs=pl.BlockSpec((128, 256), lambda n, i: (n, 0)))", "i=i32[262144],x=f32[256,256]", "pl.pallas_call"),
    refused("arithmetic on uint8", "dtype", ONE + "o_ref[...] = x_ref[...] + x_ref[...]", "(256, 256), jnp.uint8, x",
            "x=u8[256,256]"),
    refused("load of bf16 with a step", "strided-slice", ONE + "o_ref[...] = x_ref[pl.ds(0, 128, stride=2), :]",
            "(128, 256), jnp.bfloat16, x", "x=bf16[256,256]"),
    refused("dot with two batch dims", "batch-dims", TWO + "o_ref[...] = jnp.einsum('abcd,abed->abce', x_ref[...], y_ref[...])",
            "(2, 2, 64, 64), jnp.float32, x, y", "x=f32[2,2,64,128],y=f32[2,2,64,128]"),
    refused("reversed rows", "missing-op", ONE + "o_ref[...] = jnp.flip(x_ref[...], 1)", "(256, 256), jnp.float32, x", X),
    refused("scalar store to VMEM", "scalar-store", ONE + "o_ref[0, 0] = x_ref[0, 0]", "(8, 128), jnp.float32, x",
            "x=f32[8,128]"),
)  # fmt: skip
