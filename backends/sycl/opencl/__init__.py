"""OpenCL C for CPU devices: one work-item per work-group, tiles as loops over vectors."""
