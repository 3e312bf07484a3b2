"""By which words a line of loops over vectors is known to do a tile operation (``Language.words``)."""

from portakern.emit.clike.spoken import WORDS as TILES

WORDS = TILES | {
    "load": TILES["load"] + r"|\bv?load\w*\([^;]*\b{name}_?\b",
    "store": TILES["store"] + r"|\b(?:v?store|write)\w*\([^;]*\b{name}_?\b|\*\(?{name}_?\b[^=]*=[^=]",
    "reduce": TILES["reduce"] + r"|\b{name}_of\w*\(|\b{name}_\w+ \+?= ",
    "reduce sum": TILES["reduce"] + r"|\bsum_of\w*\(|reduce_add|(?<!; )\b\w+ \+= ",
    "reduce max": TILES["reduce"] + r"|\b(?:largest|max)_of\w*\(|\b(\w+) = [\w:]*max\w*\(\1\b",
    "reduce min": TILES["reduce"] + r"|\b(?:smallest|min)_of\w*\(|\b(\w+) = [\w:]*min\w*\(\1\b",
    "function max": r"\b(?:f?max\w*|maximum)\(",
    "function min": r"\b(?:f?min\w*|minimum)\(",
}
