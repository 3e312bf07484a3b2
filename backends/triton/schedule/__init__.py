"""The schedules that a loop nest may have in Triton, by family, and what tuning tries beside them."""
