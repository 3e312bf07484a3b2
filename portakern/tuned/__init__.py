"""Using schedules that were found by measuring; :mod:`portakern.tuning` finds them.

:mod:`keys`      under what a tuned schedule is kept: the operator's math, a bucket of shapes, dtype, language, device
:mod:`chosen`    schedules for the nests of a program, and how they are fitted to other shapes of their bucket
:mod:`database`  what was found: shipped files, read only, and the user's own SQLite file over them
:mod:`resolve`   whether there is one for what is asked
"""
