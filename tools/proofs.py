"""Compile ``proofs/`` with Rocq and check what the book says of it.

Usage: python tools/proofs.py [--accept]

Each statement that ``book/formal.yml`` or the ledger names must be a theorem there, say
what ``proofs/statements.txt`` keeps a digest of, and rest on no axiom but those that
``book/formal.yml`` lists. ``--accept`` writes the digests anew, after a change that is
meant.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "book" / "_extensions"))

from formal.rocq import Library  # noqa: E402
from formal.statements import Formal, read_formal  # noqa: E402

BUILD = ROOT / "_build" / "proofs"
INSTALL = """\
make proofs needs Rocq (Coq 8.16 or newer) and the library Coquelicot. On Debian:
  apt-get install --no-install-recommends coq libcoq-coquelicot
With opam: opam install coq coq-coquelicot. Nothing else in the project needs them."""


def run(*command: str) -> str:
    """Run a command in the build folder; its output, or the end with its error."""
    done = subprocess.run(command, cwd=BUILD, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def compile_all(library: Library) -> None:
    """Compile every file anew, two at a time where one does not need the other."""
    shutil.rmtree(BUILD, ignore_errors=True)
    BUILD.mkdir(parents=True)
    for name in ["_CoqProject", *(f"{file}.v" for file in library.files)]:
        shutil.copy(library.folder / name, BUILD)
    run("coq_makefile", "-f", "_CoqProject", "-o", "Makefile")
    # A make above this one would hand on its own flags and jobs.
    run("env", "-u", "MAKEFLAGS", "-u", "MAKELEVEL", "make", "-j2")


def assumptions(library: Library, names: list[str]) -> dict[str, str]:
    """What Rocq prints of the axioms behind the named theorems of each file."""
    files = {
        file: [name for name in names if name.startswith(f"{file}.")]
        for file in library.files
    }
    files = {file: named for file, named in files.items() if named}
    lines = [f"From TopK Require {' '.join(library.files)}."]
    for file, named in files.items():
        proofs = ", ".join(f"@TopK.{name}" for name in named)
        lines.append(f"Definition all_of_{file} := ({proofs}).")
        lines.append(f'Goal True. idtac "@@ {file}". exact I. Qed.')
        lines.append(f"Print Assumptions all_of_{file}.")
    (BUILD / "Ledger.v").write_text("\n".join(lines) + "\n", encoding="utf8")
    told = run("coqc", "-R", ".", "TopK", "-w", "none", "Ledger.v")
    parts = (part.partition("\n") for part in told.split("@@ ")[1:])
    found = {name.strip(): text for name, _, text in parts}
    if found.keys() != files.keys():
        sys.exit(f"Rocq did not answer for {sorted(files.keys() - found.keys())}")
    return found


def faults_of(file: str, text: str, formal: Formal) -> list[str]:
    """What is wrong with the axioms that Rocq names."""
    used = set(re.findall(r"^([A-Z]\w*(?:\.\w+)+)", text, re.M))
    if not used and "Closed under the global context" not in text:
        return [f"{file}: Rocq's answer on its axioms cannot be read:\n{text}"]
    allowed = set() if file in formal.without_axioms else set(formal.axioms)
    return [f"{file} rests on {axiom}" for axiom in sorted(used - allowed)]


def main() -> None:
    """Compile and check; the last line counts what passed, and says in what time."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--accept", action="store_true", help="write the digests anew")
    options = parser.parse_args()
    library = Library(ROOT / "proofs")
    formal = read_formal(ROOT / "book")
    if options.accept:
        formal.accept(library)
        return
    faults = formal.faults(library)
    if faults:
        sys.exit("\n".join(faults))
    if shutil.which("coqc") is None:
        sys.exit(INSTALL)
    begin = time.perf_counter()
    compile_all(library)
    told = assumptions(library, formal.names)
    faults = [f for file, text in told.items() for f in faults_of(file, text, formal)]
    if faults:
        sys.exit("\n".join(faults))
    print(f"{len(formal.names)} passed in {time.perf_counter() - begin:.0f} s")


if __name__ == "__main__":
    main()
