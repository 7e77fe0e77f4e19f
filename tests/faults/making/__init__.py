"""Code that makes faults: brokers, workers that fail at named points, a proxy that slows and cuts. Judges nothing."""
