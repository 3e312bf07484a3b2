"""Between lanes, and between lanes and scalars (native/lanes/exchange.cpp)."""

from __future__ import annotations

from .form import form

FORMS = {
    "v_readfirstlane_b32": form("sd v", own_taint=True),
    "v_readlane_b32": form("sd v sc", own_taint=True),
    "v_writelane_b32": form("d sc sc", own_taint=True),
    "v_permlane16_b32": form("d v sc sc", modifiers="op_sel", own_taint=True),
    "v_permlanex16_b32": form("d v sc sc", modifiers="op_sel", own_taint=True),
    "v_permlane16_var_b32": form("d v v", modifiers="op_sel", own_taint=True),
    "v_permlanex16_var_b32": form("d v v", modifiers="op_sel", own_taint=True),
    "v_permlane64_b32": form("d v", own_taint=True),
    "v_swap_b32": form("d d", own_taint=True),
    "v_permlane16_swap_b32": form("d d", own_taint=True),
    "v_permlane32_swap_b32": form("d d", own_taint=True),
}
