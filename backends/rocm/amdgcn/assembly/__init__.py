"""Assembly text as data: instructions, labels, kernel descriptors, registers, constant tables, and what symbols stand for."""
