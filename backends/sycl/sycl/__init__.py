"""SYCL: kernels compiled at run time by Intel's SYCL runtime from its wheel, for CPUs and for Intel's GPUs."""
