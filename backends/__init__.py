"""The backends: ``backends/x`` of the repository, which its link ``portakern/backends`` makes ``portakern.backends.x``.

This package names none of them; they are found through the entry-point group ``portakern.backends``.
"""
