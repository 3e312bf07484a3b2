import mmap

kept = mmap.mmap(-1, 4096)
