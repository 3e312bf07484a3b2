"""``python -m portakern``: the same as the ``portakern`` command."""

import sys

try:
    from portakern.cli import main
except KeyboardInterrupt:  # before there is anybody to say it
    sys.exit(130)

sys.exit(main())
