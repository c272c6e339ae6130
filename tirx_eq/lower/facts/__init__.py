"""What is known where a statement stands: about scalars held in registers, and by the conditions around it."""
