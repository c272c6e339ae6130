"""Calls, arrays and waits that no instruction does as they are, made of others that instructions do; variants come after."""
