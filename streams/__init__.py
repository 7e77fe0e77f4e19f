"""The processor, and everything that talks to the topics."""
