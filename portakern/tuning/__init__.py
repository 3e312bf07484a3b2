"""Finding schedules by measuring, keeping the best, and using what was found.

:mod:`keys`      under what a tuned schedule is kept: the operator's math, a bucket of shapes, dtype, language, device
:mod:`chosen`    schedules for the nests of a program, and how they are fitted to other shapes of their bucket
:mod:`database`  what was found: shipped files, read only, and the user's own SQLite file over them
:mod:`space`     parameters and their choices, from what a backend lists
:mod:`limits`, :mod:`cost`    what is dropped before anything is compiled
:mod:`proposers` who proposes: everything in order, at random, or optuna's TPE
:mod:`racing`    who gets samples
:mod:`bench`     the candidates on their device, in a worker process
:mod:`tuner`     the loop over all of it
"""
