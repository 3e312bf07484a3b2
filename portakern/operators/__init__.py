"""The operator library: one file each, found by its name.  The best place to see how an operator is written."""
