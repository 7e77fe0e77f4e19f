"""Gates and publishers in agent frameworks: one module each, importable when its library is installed (optional extras)."""
