"""The fast path in front of the e-graph: pieces whose cheapest form is constructed, not searched for."""
