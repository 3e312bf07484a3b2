"""By which words a line of plain loops is known to do a tile operation (``Language.words``)."""

WORDS = {
    "load": r"^(?!\s*{name}\[[^=]*\]\s*=[^=]).*(?<!\w){name}\[",
    "store": r"^\s*{name}\[.*\]\s*[+]?=[^=]",
    "reduce": r"\b{name}_\w+ = ",
    "scan": r"\brunning\w* = ",
    "sort": r"\b(?:sorted_order|first_few)\(",
    "dot": r"\bdot\(",
    "function rsqrt": r"rsqrt\w*\(|\b1\.0\) / \w*\.?sqrt",
    "function max": r"\bmax(?:imum)?\(",
    "function min": r"\bmin(?:imum)?\(",
    "function sigmoid": r"(?:sigmoid|exp2?)\w*\(",
    "function isnan": r"isnan\w*\(|\b(\w+) != \1\b",
    "function rem": r" % |\b\w*(?:rem|mod)\w*\(",
}
