"""convert: the cheapest way from one distribution over registers to another."""
