"""The command line `loopwarden`: one thin module per subcommand."""
