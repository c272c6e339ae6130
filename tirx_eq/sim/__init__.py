"""A functional simulator of PTX for Blackwell on numpy: runs PTX text, and reports races, missing fences and misuse."""

from tirx_eq.sim.faults import RULES, Fault
from tirx_eq.sim.machine import Launch, Result, simulate
from tirx_eq.sim.parser import parse
from tirx_eq.sim.tensormap import TensorMap

__all__ = ["RULES", "Fault", "Launch", "Result", "TensorMap", "parse", "simulate"]
