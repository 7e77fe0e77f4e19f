"""Events from outside a gateway: reading files of them and publishing what was read."""
