"""One module for each format that logs come in, with its name, how it is recognised and its reader."""
