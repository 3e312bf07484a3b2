"""SYCL and OpenCL devices."""
