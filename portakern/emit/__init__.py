"""What emitters share: ``clike`` for the C family, ``python_like`` for languages printed as Python, ``loops`` for CPUs."""
