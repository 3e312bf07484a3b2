"""How long a program takes on a TPU that is not there: libtpu's static profile of a part of it, extrapolated and priced."""
