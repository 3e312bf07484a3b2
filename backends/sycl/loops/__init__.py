"""The loop plan of a kernel (:mod:`portakern.emit.loops`) in OpenCL C and SYCL, for CPUs.

What differs between the two is a :class:`~portakern.backends.sycl.loops.words.Words`.  Each module imports those before it::

    spelling, words                           dtypes and constants in C; what a language has to say
    expressions, access, scope                text of an operation, of an address; names
    values, memory, reductions, printer       text of a value, of a load or store, of a reduction; the loops
    emitting                                  what the emitters share: missing rules, the plan of a program, launches
"""
