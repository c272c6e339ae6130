"""What is wrong with a program as a whole: races, barriers, tensor memory, elements outside of their buffers."""
