"""Kernels as loops over single elements and vectors, for devices where one work-item works on a whole tile: CPUs.

:mod:`forming` makes the plan (:mod:`plan`) and :mod:`printer` prints it, in OpenCL C or in SYCL: what differs between the
two is a :class:`~portakern.backends.sycl.loops.words.Words`.  Each module imports those before it::

    elements, plan                            what an operation is at one element; the nodes of a plan
    arrays, products, items, crossing, vectors, forming    arrays, packing, axes, what is kept, lanes; the loops
    expressions, access, scope, uses          text of an operation, of an address; names; who reads what
    values, memory, reductions, printer       text of a value, of a load or store, of a reduction; the loops
"""
