"""AMDGPU code objects: what a kernel uses and where its arguments lie, as the compiler's metadata say."""
