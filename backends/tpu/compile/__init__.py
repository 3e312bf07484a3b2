"""libtpu as a compiler for a TPU that is not there: the child process, what it reads off, errors in words."""
