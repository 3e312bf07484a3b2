"""By which words a line of Triton is known to do a tile operation (``Language.words``)."""

WORDS = {
    "load": r"tl\.load\(.*\b{name}(?:_ptr|_desc|_ptrs)?\b|\b{name}_desc\.(?:load|gather)\(",
    "store": r"tl\.(?:store|atomic_\w+)\(\s*{name}(?:_ptr|_ptrs)?\b|\b{name}_desc\.(?:store|scatter)\(",
    "reduce": r"tl\.{name}\(|tl\.reduce\(.*\b{name}|tl\.reduce\(.*_{name}",
    "reduce sum": r"tl\.sum\(|tl\.reduce\(.*\badd",
    "scan": r"tl\.(?:cumsum|cumprod|associative_scan)\(",
    "sort": r"\b(?:tl\.)?(?:sort|topk)\w*\(",
    "dot": r"tl\.dot\w*\(",
    "function max": r"tl\.maximum\(|\bmax_nan\(",
    "function min": r"tl\.minimum\(|\bmin_nan\(",
    "function sigmoid": r"(?:sigmoid|exp2?)\w*\(",
    "function isnan": r"isnan\w*\(|\b(\w+) != \1\b",
    "function rem": r" % |\b\w*(?:rem|mod)\w*\(",
}
