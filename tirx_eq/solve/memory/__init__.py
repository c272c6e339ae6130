"""best_layout: the layout of shared memory that given accesses want."""
