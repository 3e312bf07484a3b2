"""``python -m portakern`` is the ``portakern`` command."""

import sys

from portakern.cli import main

sys.exit(main())
