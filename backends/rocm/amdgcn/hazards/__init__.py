"""Instructions that come too soon behind others, where hardware does not wait by itself.

Compilers count wait states between such instructions and put ``s_nop`` where they are too few; inline assembly and files from
elsewhere may not.  The machine executes an instruction at once, so that such code gives right results there: it is found on the
text instead, on every path through the kernel, whether a launch takes it or not.

    :mod:`.facts`   what an instruction reads, writes and how many wait states it is
    :mod:`.cdna`    how many must lie between two instructions on CDNA 2 to 4
    :mod:`.rdna`    the same for RDNA 3 and 4
    :mod:`.walk`    which instructions may lie how far back
    :mod:`.insertion` puts what is missing into a text before it is assembled

``docs/amd-simulator.md`` lists the rules and what is not checked.
"""

from .walk import Hazard, find

__all__ = ["Hazard", "find"]
