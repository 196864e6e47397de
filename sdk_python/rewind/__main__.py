"""`python -m rewind` is the command `rewind`."""

from rewind.cli import main

raise SystemExit(main())
