"""Operators that nobody wrote, held against the oracle on every target: ``portakern fuzz``."""
