"""The pure engine: what the next calls of a run would be told, given the events so far. No I/O, no clock, no Kafka."""
