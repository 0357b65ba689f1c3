"""What tests of farpost sim share. PREFIX names the install tree."""

import os
import re
import subprocess
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
PREFIX = os.environ["PREFIX"]
FARPOST = os.path.join(PREFIX, "bin", "farpost")
WORK = tempfile.TemporaryDirectory(prefix="farpost-sim.")


def interfaces(source):
    """The interfaces beside MPI that a program's first lines name."""
    with open(source) as file:
        found = re.search(r"(?m)^// interface: (.*)$", file.read(1000))
    return found[1].split() if found else []


def build(name):
    """Compile a program of this directory, or of another one of the repository."""
    program = os.path.join(WORK.name, os.path.basename(name))
    if not os.path.exists(program):
        source = os.path.join(ROOT if "/" in name else HERE, name + ".c")
        compiler, flags = [os.path.join(PREFIX, "bin", "mpicc"), "-std=gnu11"], []
        if beside := interfaces(source):
            packages = ["pkg-config", "--cflags", "--libs", *("farpost-" + each for each in beside)]
            path = {**os.environ, "PKG_CONFIG_PATH": os.path.join(PREFIX, "lib", "pkgconfig")}
            flags = subprocess.run(packages, check=True, capture_output=True, text=True, env=path).stdout.split()
            compiler = ["cc", "-std=c99", "-D_GNU_SOURCE"]
        own = ["-DFARPOST", "-I" + os.path.join(ROOT, "tests", "mpi")]
        command = [*compiler, "-O1", "-Wall", *own, source, "-o", program, *flags, "-lm", "-lpthread"]
        subprocess.run(command, check=True)
    return program


def sim(*arguments, **variables):
    """Run it: the code, what it printed, what it said."""
    command = [FARPOST, "sim", *map(str, arguments)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=110, env={**os.environ, **variables}, stdin=subprocess.DEVNULL
    )
    return done.returncode, done.stdout, done.stderr
