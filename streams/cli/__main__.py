"""`python -m streams.cli`: the command `loopwarden` without its script on the path."""

from streams.cli.main import main

main()
