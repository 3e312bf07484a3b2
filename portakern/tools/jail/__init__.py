"""A process that may compute and do little else: what the kernel of a stranger runs in."""
