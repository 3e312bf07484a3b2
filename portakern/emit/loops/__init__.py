"""Kernels as loops over single elements and vectors, for devices where one thread works on a whole tile: CPUs.

:mod:`planner` makes the plan of a kernel (:mod:`plan`), a tree of loops that emitters print in their language: OpenCL C and
SYCL, whose vectors are written out, and numba, whose loops LLVM vectorises (:mod:`array_sums`).  Each module imports those
before it::

    elements, plan                      what an operation is at one element; the nodes of a plan
    arrays, products, items             local arrays; operands of products, packed; what is read, which axes are walked
    crossing, vectors                   what is kept or computed again; the contiguous axis
    planner, array_sums                 the loops; the loops where sums along an outer one go into arrays
    uses                                for printers: which values are read where
"""
