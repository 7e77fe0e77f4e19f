"""Plays recorded scenarios through the product and compares every verdict."""
