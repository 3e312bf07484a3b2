"""every target: "the text of the tensor program reads back as another program": two blocks named what they shared once."""
# case: {"dims": {"M": 99}, "dtype": "bf16", "same": true, "forms": true}

import portakern as pk


@pk.operator
def op(x: pk.Tensor["M"]):
    def join(left, right):
        more = right[0] > left[0]
        return pk.where(more, right[0], left[0]), pk.where(more, right[1], left[1])

    return pk.associative_scan(join, (pk.where(x > -2.0, x, -2.0), x), 0, reverse=True)[0]


op = pk.grad(op)
