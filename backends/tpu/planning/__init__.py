"""What is decided about a kernel before any text: its loops and grid, its blocks, where values lie, what stays in VMEM."""
