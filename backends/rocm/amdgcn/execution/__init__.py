"""The CPU executes AMD machine code: assembly is decoded once and interpreted by native code, a wave at a time."""
