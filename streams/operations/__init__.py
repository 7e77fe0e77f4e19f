"""How a process can be looked after: health, the HTTP endpoint, a bound on log lines, a stop that comes to an end."""
