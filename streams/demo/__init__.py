"""The demo: recorded runs, or a user's own, played through an embedded broker and a worker, with the verdicts on a terminal."""
