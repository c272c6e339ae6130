"""Find and run NVIDIA's assembler and disassembler.

Both are looked for in the wheels of the extra ``ptxas`` (``nvidia-cuda-nvcc``, ``nvidia-cuda-nvdisasm``), in the
layouts of CUDA 13 (``nvidia/cu13/bin``) and 12 (``nvidia/cuda_nvcc/bin``), then on ``PATH`` and in ``CUDA_HOME``.
"""

from __future__ import annotations

import os
import re
import shutil
import site
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from tirx_eq.errors import PtxError

#: Seconds after which a tool that hangs is stopped.
TIMEOUT = 300

_WHEEL_FOLDERS = ("nvidia/cu13/bin", "nvidia/cu12/bin", "nvidia/cuda_nvcc/bin", "nvidia/cuda_nvdisasm/bin")


@dataclass(frozen=True)
class Assembled:
    """What ptxas made of a module; counts are per thread and of the entry named, or of the only one.

    ``shared_bytes``: static shared memory as ptxas reports it; ``stack``: bytes of stack frame; ``cubin``: the ELF
    image.
    """

    registers: int
    spill_stores: int
    spill_loads: int
    shared_bytes: int
    barriers: int
    stack: int
    log: str
    cubin: bytes = field(repr=False)

    @property
    def warnings(self) -> tuple[str, ...]:
        """The assembler's warnings, such as a setmaxnreg that it ignored."""
        return tuple(line.strip() for line in self.log.splitlines() if "warning" in line.lower())


def find_tool(name: str) -> Path | None:
    """The executable ``name`` ("ptxas", "nvdisasm", "cuobjdump"), or None if it is not installed."""
    roots = [Path(p) for p in [*sys.path, *site.getsitepackages()] if p]
    for root in dict.fromkeys(roots):
        for folder in _WHEEL_FOLDERS:
            candidate = root / folder / name
            if candidate.is_file() and os.access(candidate, os.X_OK):
                return candidate
    found = shutil.which(name)
    if found:
        return Path(found)
    home = os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH")
    if home and os.access(Path(home) / "bin" / name, os.X_OK):
        return Path(home) / "bin" / name
    return None


def _tool(name: str) -> Path:
    path = find_tool(name)
    if path is None:
        raise PtxError(f"{name} is not installed", hint='pip install "tirx-eq[ptxas]"')
    return path


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    except subprocess.TimeoutExpired:
        raise PtxError(f"{Path(command[0]).name} did not finish within {TIMEOUT} s") from None
    except OSError as error:
        raise PtxError(f"{Path(command[0]).name} cannot be run: {error}") from None


def assemble(ptx: str, target: str, entry: str | None = None, optimize: int = 3) -> Assembled:
    """Assemble PTX text for ``target`` ("sm_100a").

    Raises ``PtxError`` with the assembler's messages and the PTX lines they are about, or if ptxas is not installed.
    ``entry`` selects the kernel whose figures are returned (default: the first).
    """
    tool = _tool("ptxas")
    with tempfile.TemporaryDirectory(prefix="tirx_eq_") as folder:
        source, image = Path(folder, "kernel.ptx"), Path(folder, "kernel.cubin")
        source.write_text(ptx)
        out = _run([str(tool), f"-arch={target}", "-v", f"-O{optimize}", str(source), "-o", str(image)])
        log = (out.stderr + out.stdout).replace(str(source), "kernel.ptx")
        if out.returncode:
            raise PtxError(f"ptxas refuses the module for {target}:\n" + _explain(ptx, log))
        return _figures(log, image.read_bytes() if image.exists() else b"", entry)


def diagnostics(ptx: str, target: str) -> dict[int, list[str]]:
    """Errors of ptxas by line number of ``ptx`` (1-based; 0 for those without a line); empty if it assembles."""
    with tempfile.TemporaryDirectory(prefix="tirx_eq_") as folder:
        source = Path(folder, "kernel.ptx")
        source.write_text(ptx)
        out = _run([str(_tool("ptxas")), f"-arch={target}", "-O0", str(source), "-o", str(Path(folder, "k.cubin"))])
    found: dict[int, list[str]] = {}
    for line in (out.stderr + out.stdout).splitlines():
        match = re.search(r"line (\d+); (?:error|fatal)\s*:\s*(.*)", line)
        if match:
            found.setdefault(int(match[1]), []).append(match[2].strip())
        elif out.returncode and re.match(r"ptxas (fatal|error)", line):
            found.setdefault(0, []).append(line)
    return found


@cache
def newest_version() -> tuple[int, int]:
    """The highest PTX ``.version`` that the installed ptxas reads; ``PtxError`` if it is not installed."""
    for version in ((major, minor) for major in range(12, 7, -1) for minor in range(9, -1, -1)):
        if not diagnostics(f".version {version[0]}.{version[1]}\n.target sm_90\n.address_size 64\n", "compute_90"):
            return version
    raise PtxError("ptxas reads no PTX version from 8.0 to 12.9")


def _explain(ptx: str, log: str) -> str:
    lines = ptx.splitlines()
    out: list[str] = []
    for message in log.splitlines():
        match = re.search(r"line (\d+);\s*(?:error|fatal)\s*:\s*(.*)", message)
        if match:
            number = int(match[1])
            text = lines[number - 1].strip() if 0 < number <= len(lines) else ""
            out.append(f"  line {number}: {match[2].strip()}\n    {text}")
        elif "error" in message or "fatal" in message:
            out.append("  " + message.strip())
    return "\n".join(out[:20]) or log.strip()


def _figures(log: str, cubin: bytes, entry: str | None) -> Assembled:
    sections = re.split(r"Compiling entry function '([^']+)'", log)
    text = sections[2] if len(sections) > 2 else log
    if entry is not None:
        for name, body in zip(sections[1::2], sections[2::2]):
            if name == entry:
                text = body
                break
        else:
            raise PtxError(f"the module has no entry '{entry}'")

    def number(pattern: str) -> int:
        match = re.search(pattern, text)
        return int(match[1]) if match else 0

    return Assembled(
        registers=number(r"Used (\d+) registers"),
        spill_stores=number(r"(\d+) bytes spill stores"),
        spill_loads=number(r"(\d+) bytes spill loads"),
        shared_bytes=number(r"(\d+) bytes smem"),
        barriers=number(r"used (\d+) barriers"),
        stack=number(r"(\d+) bytes stack frame"),
        log=log,
        cubin=cubin,
    )


_SASS_LINE = re.compile(r"^\s+/\*[0-9a-f]{4,}\*/\s+(.*)$", re.MULTILINE)


def disassemble(cubin: bytes) -> str:
    """SASS text of a cubin, by nvdisasm; raises ``PtxError`` if that is not installed or fails."""
    tool = _tool("nvdisasm")
    with tempfile.TemporaryDirectory(prefix="tirx_eq_") as folder:
        image = Path(folder, "kernel.cubin")
        image.write_bytes(cubin)
        out = _run([str(tool), "-c", str(image)])
        if out.returncode:
            raise PtxError("nvdisasm failed: " + out.stderr.strip())
        return out.stdout


def sass_instructions(cubin: bytes) -> list[str]:
    """The SASS instructions of a cubin in order, without addresses; padding NOPs after the last branch included."""
    return [m[1].strip().rstrip(";").strip() for m in _SASS_LINE.finditer(disassemble(cubin))]


def sass_count(cubin: bytes) -> int:
    """Number of SASS instructions of a cubin."""
    return len(sass_instructions(cubin))


def sass_histogram(cubin: bytes) -> dict[str, int]:
    """How often each SASS opcode (with modifiers, without predicate) occurs, most frequent first."""
    counts: Counter[str] = Counter()
    for text in sass_instructions(cubin):
        words = text.split()
        counts[words[1] if words[0].startswith("@") and len(words) > 1 else words[0]] += 1
    return dict(counts.most_common())


def count_instructions(ptx: str) -> int:
    """Number of PTX instructions in ``ptx``: statements in kernel bodies that are not directives or labels."""
    return len(instruction_lines(ptx))


def instruction_lines(ptx: str) -> list[str]:
    """The instruction statements of ``ptx`` in order, comments removed and white space folded."""
    text = re.sub(r"//[^\n]*|/\*.*?\*/", "", ptx, flags=re.DOTALL)
    out: list[str] = []
    depth = 0
    for piece in _statements(text):
        # braces of bodies arrive as statements of their own, those of vector operands stay inside a statement
        if piece == "{":
            depth += 1
        elif piece == "}":
            depth -= 1
        elif depth:
            statement = _unlabelled(" ".join(piece.split()))
            if statement and not statement.startswith("."):
                out.append(statement)
    return out


def _unlabelled(statement: str) -> str:
    """``statement`` without the labels before it."""
    return re.sub(r"^\s*(?:[A-Za-z_$%][\w$]*\s*:(?!:)\s*)+", "", statement).strip()


def _statements(text: str) -> list[str]:
    """Statements of PTX text, with the braces that open and close bodies as statements of their own."""
    out: list[str] = []
    current = ""
    nested = 0
    for char in text:
        before = _unlabelled(current) if char == "{" else ""
        if char == "{" and not nested and (not before or (before[0] == "." and before[-1] != "=")):
            if before:
                out.append(before)
            out.append("{")
            current = ""
        elif char == "}" and not nested and not current.strip():
            out.append("}")
            current = ""
        elif char == ";" and not nested:
            out.append(current.strip())
            current = ""
        else:
            nested += (char == "{") - (char == "}")
            current += char
    return out
