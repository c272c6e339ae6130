"""Who does what: the threads that reach a statement, and how elements are shared out among them."""
