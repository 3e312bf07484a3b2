"""Finding schedules by measuring; what was found is kept and used by :mod:`portakern.tuned`.

:mod:`space`     parameters and their choices, from what a backend lists
:mod:`limits`, :mod:`cost`    what is dropped before anything is compiled
:mod:`proposers` who proposes: everything in order, at random, or optuna's TPE
:mod:`racing`    who gets samples
:mod:`bench`     the candidates on their device, in a worker process
:mod:`tuner`     the loop over all of it
"""
