"""``python -m ascendfx``: the command line, where its script is not on the path."""

from ascendfx.runtime.cli.main import main

main()
