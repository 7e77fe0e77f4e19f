"""What is told to people and programs about judged runs: plain data, and pure functions that write it in one form each."""
