"""The instruction set: what each mnemonic is, its operands, widths and modifiers, as one table per group of instructions."""

from .lookup import GENERATIONS, base_name, form_of, forms

__all__ = ["GENERATIONS", "base_name", "form_of", "forms"]
