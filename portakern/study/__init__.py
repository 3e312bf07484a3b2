"""From an operator and a target to a row of results: the pipeline, its workers, tables and reports.

:mod:`work` says what is asked, :mod:`steps` takes it from tensor program to checked kernel in worker processes,
:mod:`slots` keeps those workers busy, :mod:`row` is what comes out, and :mod:`table` and :mod:`report` show it.
"""
