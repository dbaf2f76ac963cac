"""`python -m convertor` is `convertor`."""

import sys

from convertor.cli import main

sys.exit(main())
