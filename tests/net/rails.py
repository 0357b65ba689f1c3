"""What tests and measurements of several rails between two hosts share: the hosts, and rsm_rails.c under mpiexec."""

import os
import subprocess
import tempfile

from hosts import ROOT, Hosts
from test_bad_input import HYDRA, MPIEXEC, PREFIX

# Rail 0 is the launcher's.
RAILS = (1, 2)


class Rails:
    """Two hosts with two rails for messages, each limited to a rate in both directions."""

    def __init__(self, rate):
        self.directory = tempfile.TemporaryDirectory(prefix="rails.", dir=os.path.join(ROOT, "build"))
        self.program = f"{self.directory.name}/rsm_rails"
        env = {**os.environ, "PKG_CONFIG_PATH": f"{PREFIX}/lib/pkgconfig"}
        found = subprocess.run(["pkg-config", "--cflags", "--libs", "farpost-rsm"], check=True, capture_output=True, text=True, env=env)
        source = f"{ROOT}/tests/net/rsm_rails.c"
        command = ["cc", "-std=c99", "-D_GNU_SOURCE", "-O1", source, "-o", self.program, *found.stdout.split(), f"-Wl,-rpath,{PREFIX}/lib"]
        subprocess.run(command, check=True)
        below = {os.path.dirname(os.path.dirname(os.path.realpath(p))) for p in (MPIEXEC, HYDRA)}
        self.hosts = Hosts(2, rails=3, share=sorted({p for p in below if p.startswith("/tmp/")} | {self.directory.name}))
        for rail in RAILS if rate else ():
            for host in self.hosts.names:
                self.hosts.slow(host, rail, rate)

    def start(self, *arguments, order=RAILS, **settings):
        """The program on both hosts, started, with the rails in that order."""
        command = [MPIEXEC, "-q", "--launcher", "hydra", "--rsh-agent", self.hosts.rsh, "--host", "h1:1,h2:1", "-n", "2"]
        env = {"PATH": f"{os.path.dirname(HYDRA)}:{os.environ['PATH']}", "FARPOST_FABRIC": "tcp"}
        env["FARPOST_INTERFACE"] = ",".join(f"10.{77 + rail}.0.0/24" for rail in order)
        return self.hosts.start("h1", [*command, self.program, *arguments], env={**env, **settings})

    def close(self):
        self.hosts.close()
        self.directory.cleanup()
