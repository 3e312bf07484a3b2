"""By which words of the tile vocabulary a line of the C family is known to do a tile operation (``Language.words``)."""

_MOVE = r"(?:load|gather|fetch|stage|copy|prefetch)\w*"
_ELEMENT = r"(?<![\w*]){name}_?\["

WORDS = {
    "load": rf"\b{_MOVE}\b[^;]*\b{{name}}(?:_|_map)?\b|\b{{name}}_(?:ring|pipe)\.next|{_ELEMENT}(?!.*\]\s*=[^=])"
            r"|\*\(?{name}_?\b",
    "store": r"\b(?:store|scatter|send|add_to|atomic|put)\w*\b[^;]*\b{name}(?:_|_map|_tile|_value)?\b"
             rf"|{_ELEMENT}.*\]\s*\+?=[^=]",
    "reduce": r"\breduce_\w+<pk::{Name}\b|\b(?:row|col|all)_{name}\w* = ",
    "reduce argmax": r"\barg_?max|reduce_\w+<pk::(?:Arg)?Max",
    "reduce argmin": r"\barg_?min|reduce_\w+<pk::(?:Arg)?Min",
    "scan": r"\b(?:scan|running)\w*",
    "sort": r"\b(?:order|sort|in_order)\w*\(",
    "dot": r"\b(?:dot|start_dot|start_product|product|multiply|mma)\w*(?:<[^()]*>)?\(",
    "function sigmoid": r"(?:sigmoid|exp2?)\w*\(",
    "function isnan": r"isnan\w*\(|\b(\w+) != \1\b",
    "function rem": r" % |\b\w*(?:rem|mod)\w*\(",
}  # fmt: skip
