"""An output projection of attention: the inner loop of a sum over two axes that do not merge refilled its slots while the outer
step's last product could still read them, in CUDA C++ and HIP."""
# case: {"dims": {"B": 1, "H": 3, "S": 17, "D": 96, "E": 33}, "dtype": "f32"}
# case: {"dims": {"B": 2, "H": 2, "S": 16, "D": 128, "E": 32}, "dtype": "bf16"}

import portakern as pk


@pk.operator
def op(a: pk.Tensor["B", "H", "S", "D"], w: pk.Tensor["H", "D", "E"]):
    return pk.einsum("bhsd,hde->bse", a, w)
