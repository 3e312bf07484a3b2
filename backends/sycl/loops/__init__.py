"""Kernels as loops over single elements and vectors, for devices where one work-item works on a whole tile: CPUs.

:mod:`forming` makes the plan (:mod:`plan`) and :mod:`printer` prints it, in OpenCL C or in SYCL: what differs between the
two is a :class:`~portakern.backends.sycl.loops.words.Words`.
"""
