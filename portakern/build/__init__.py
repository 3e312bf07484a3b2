"""What building needs on any backend: a cache on disk, and child processes with limits."""
