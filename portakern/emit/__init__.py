"""What emitters share: ``clike`` for the C family, ``python_like`` for languages printed as Python, ``loops`` for CPUs."""

from portakern.callable_room import make_callable

make_callable(__name__)
