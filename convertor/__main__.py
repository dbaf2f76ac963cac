"""`python -m convertor` is `convertor`."""

import sys

from .cli import main

sys.exit(main())
