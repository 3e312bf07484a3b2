"""What authors of backends test with."""
