"""By which words a line of Pallas is known to do a tile operation (``Language.words``)."""

WORDS = {
    "load": r"^(?!\s*{name}\w*_ref\[.*\]\s*=[^=]).*\b{name}(?:_step)?_?\d*_(?:ref|buffer|hbm|vmem|smem)\b",
    "store": r"\b{name}(?:_step)?_?\d*_ref\[.*\]\s*[+]?=[^=]|copy\(.*\b{name}_",
    "reduce": r"jnp\.{name}\(",
    "reduce sum": r"jnp\.sum\(|\bsum_\w*\(|dot\w*\(.*ones",
    "scan": r"\b(?:cumsum|cumprod|scan|running)\w*",
    "sort": r"\bsort\w*\(|argsort",
    "dot": r"\b(?:dot_general|dot|matmul|einsum)\(",
    "function max": r"jnp\.(?:maximum|clip)\(",
    "function min": r"jnp\.(?:minimum|clip)\(",
    "function sigmoid": r"(?:sigmoid|exp2?)\w*\(",
    "function isnan": r"isnan\w*\(|\b(\w+) != \1\b",
    "function rem": r" % |\b\w*(?:rem|mod)\w*\(",
}
