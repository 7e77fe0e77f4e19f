"""Exit codes of all subcommands."""

FINE = 0
FINDINGS = 1
WRONG_USE = 2
