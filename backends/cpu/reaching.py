"""Functions by which compiled code finds others, or lets them, programs or Python work."""

from __future__ import annotations

import re

REACHING = re.compile(r"_?dl(m?open|v?sym|info|_iterate_phdr)|_*dl_\w+|__libc_dl\w+|_?Py[A-Z_]\w*|\w*blas\w*|"
                      r"\w*(gemm|gemv)\w*|system|popen|f?exec(v|l)\w*|posix_spawnp?|mkl_\w+|dnnl_\w+")  # fmt: skip
"""Their whole names."""
