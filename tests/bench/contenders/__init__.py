"""The programs that the benchmarks compare: each reads one input topic until it is killed."""
