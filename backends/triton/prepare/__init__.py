"""What is rewritten or chosen in a program before it is printed: products, packed operands, masked loads, descriptors."""
