"""The discrete Fourier transform of rows (Cooley and Tukey 1965)."""

import portakern as pk


@pk.operator(
    dtypes=("f32", "bf16", "f16"),
    cases={
        "typical": dict(M=16, N=256),
        "ragged": dict(M=3, N=96, inverse=True),
        "tiny": dict(M=2, N=3),
        "one": dict(M=1, N=1),
        "zero": dict(M=0, N=16),
        "long": dict(M=1, N=1536),
        "unaligned": dict(M=5, N=67),
    },
    torch="[(y.real.to(real.dtype), y.imag.to(real.dtype)) for y in [(torch.fft.ifft if inverse else torch.fft.fft)("
    "torch.complex(real.float(), imag.float()))]][0]",
)
def fft(real: pk.Tensor["M", "N"], imag: pk.Tensor["M", "N"], inverse: bool = False):
    """The sums over j of (real + i imag)[j] exp(-2 pi i j k / N) for every k, in f32, as real and imaginary parts.

    ``inverse`` turns the sign of the exponent around and divides by N.
    """
    re, im = (pk.ifft if inverse else pk.fft)(real, imag)
    return {"re": re, "im": im}
