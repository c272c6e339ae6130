"""Code for terms, values and accesses: from the device program to PTX instructions."""
