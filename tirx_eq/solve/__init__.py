"""Layouts as unknowns: the hardware's rules as constraints, candidates by requirements that flow, the optimum by search."""
