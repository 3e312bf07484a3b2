"""What each operation reads in C.  ``{f}`` is ``f`` for float functions (``expf``) and empty for double ones (``exp``)."""

TYPES = {
    "f64": "double", "f32": "float", "i64": "int64_t", "i32": "int32_t", "i16": "int16_t", "i8": "int8_t", "u8": "uint8_t",
    "bool": "bool", "bf16": "uint16_t",
}  # fmt: skip

UNARY = {
    "neg": "-{x}", "abs": "fabs{f}({x})", "exp": "exp{f}({x})", "exp2": "exp2{f}({x})", "log": "log{f}({x})",
    "log2": "log2{f}({x})", "log1p": "log1p{f}({x})", "expm1": "expm1{f}({x})", "sqrt": "sqrt{f}({x})",
    "rsqrt": "1 / sqrt{f}({x})", "reciprocal": "1 / {x}", "tanh": "tanh{f}({x})", "sigmoid": "1 / (1 + exp{f}(-{x}))",
    "erf": "erf{f}({x})", "sin": "sin{f}({x})", "cos": "cos{f}({x})", "floor": "floor{f}({x})", "ceil": "ceil{f}({x})",
    "round": "nearbyint{f}({x})", "sign": "{x} > 0 ? 1 : {x} < 0 ? -1 : {x}", "isnan": "isnan({x})",
}  # fmt: skip
INTEGER_UNARY = {"neg": "-{x}", "abs": "{x} < 0 ? -{x} : {x}", "sign": "({x} > 0) - ({x} < 0)", "not": "~{x}"}

BINARY = {
    "add": "{a} + {b}", "sub": "{a} - {b}", "mul": "{a} * {b}", "div": "{a} / {b}", "pow": "pow{f}({a}, {b})",
    # NaN is handed on, which fmax does not do.
    "max": "{a} > {b} || {a} != {a} ? {a} : {b}", "min": "{a} < {b} || {a} != {a} ? {a} : {b}",
    "floordiv": "floor{f}({a} / {b})", "rem": "{a} - floor{f}({a} / {b}) * {b}",
}  # fmt: skip
INTEGER_BINARY = {
    "add": "{a} + {b}", "sub": "{a} - {b}", "mul": "{a} * {b}", "max": "{a} > {b} ? {a} : {b}", "min": "{a} < {b} ? {a} : {b}",
    "div": "{a} / {b}", "floordiv": "{a} / {b} - ({a} % {b} != 0 && ({a} < 0) != ({b} < 0))",
    "rem": "{a} % {b} + ({a} % {b} != 0 && ({a} < 0) != ({b} < 0) ? {b} : 0)",
    "and": "{a} & {b}", "or": "{a} | {b}", "xor": "{a} ^ {b}", "shl": "{a} << {b}", "shr": "{a} >> {b}",
}  # fmt: skip
BOOL_BINARY = {"and": "{a} && {b}", "or": "{a} || {b}", "xor": "{a} != {b}", "max": "{a} || {b}", "min": "{a} && {b}"}

COMPARE = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}

# What a reduction starts from, and how one element joins.
REDUCE = {
    "sum": ("0", "add"), "prod": ("1", "mul"), "max": ("-INFINITY", "max"), "min": ("INFINITY", "min"),
    "any": ("false", "or"), "all": ("true", "and"),
}  # fmt: skip

HELPERS = {
    "bf16_to_f32": """\
// bf16 is the upper half of a float.
static inline float bf16_to_f32(uint16_t bits) {
    uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, sizeof value);
    return value;
}
""",
    "f32_to_bf16": """\
// To nearest, halves to even; NaN stays NaN.
static inline uint16_t f32_to_bf16(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (value != value) return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
""",
}
