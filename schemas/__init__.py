"""The contract: what travels on the topics, how it is fingerprinted, what a policy may say."""
