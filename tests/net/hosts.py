#!/usr/bin/env python3
"""Several emulated hosts on one Linux machine, made of namespaces, with networks between them that can be broken.

Every host has a network, a UTS (host name), an IPC, a mount and a pid namespace of its own, and with them its own
/dev/shm, /proc, /etc/hosts and /tmp: nothing but the network, the rest of the file system and the processors is shared. Hosts are called h1, h2, ...; rail r is a network of its own:

    rail 0: 10.77.0.I, device r0        rail 1: 10.78.0.I, device r1      ...
    names:  hI and hI-r0 on rail 0;     hI-r1 on rail 1

It works as root, or in a user namespace where the system permits these; nothing outside the namespaces is touched, so any
number of sets may be up at once. Everything goes away with the process that made a set, however that ends.

    with Hosts(2, rails=2) as hosts:
        hosts.run("h1", ["ping", "-c1", "h2"])
        hosts.cut("h1", 0)

For people:

    hosts.py up N [--rails R] [--direct] [--pin] [--mtu M] [--shared-tmp] [--share DIR]    make a set; prints its directory
    hosts.py run HOST COMMAND...       run a command in a host (its environment and directory are the caller's)
    hosts.py ps [HOST]                 processes
    hosts.py cut|mend HOST RAIL        carrier of a cable, as if it were pulled
    hosts.py device HOST RAIL up|down  the host's own device
    hosts.py blackhole HOST RAIL on|off    the cable stays up, packets vanish without any error
    hosts.py slow HOST RAIL RATE|off   for example 1gbit, in both directions
    hosts.py lose HOST RAIL PERMILLE|off   random loss of what arrives
    hosts.py crash HOST                kill -9 all its processes at once
    hosts.py rsh                       print the remote shell's path: HOST COMMAND..., as ssh is called
    hosts.py down [--all]              end everything and remove it; --all: all sets made by `up`

With several sets up, TEST_HOSTS=DIRECTORY chooses. Needs Python 3.8, iproute2, and nftables for loss where the kernel
has no netem.
"""

import argparse
import contextlib
import glob
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
PREFIX = "farpost-hosts."


class NotPermitted(Exception):
    """This machine does not let us make hosts; the text says why."""


class Failed(Exception):
    """A command in a host failed or took too long."""


class Result:
    """What a command in a host did: `code`, `out`, `err`."""

    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err

    def __repr__(self):
        return f"code {self.code}, out {self.out!r}, err {self.err!r}"


class Process:
    """A running command in a host. Killed, with its session, when this object is closed first."""

    def __init__(self, connection, argv, out=None, err=None, thread=None):
        self.connection, self.argv = connection, argv
        self.answers = connection.makefile("r")
        try:
            first = json.loads(self.answers.readline() or '{"error": "the host is gone"}')
        except OSError as e:
            first = {"error": f"the host is gone: {e}"}
        if "error" in first:
            self.close()
            raise Failed(f"{' '.join(argv)}: {first['error']}")
        self.pid = first["pid"]  # as its host sees it
        self.code = None
        self._out, self._err, self._readers = out, err, thread

    def signal(self, number):
        """Send a signal to the command's process group."""
        with contextlib.suppress(OSError):
            self.connection.sendall(bytes([number]))

    def wait(self, timeout=None):
        """The exit code (128 + signal if killed), or None after `timeout` seconds."""
        if self.code is None:
            self.connection.settimeout(timeout)
            try:
                line = self.answers.readline()
            except ConnectionError:
                line = ""  # the host is gone
            except OSError:
                # A file object cannot be read again after a timeout: start afresh.
                self.answers = self.connection.makefile("r")
                return None
            self.code = json.loads(line)["code"] if line else 255
        return self.code

    def result(self, timeout):
        """Wait for the end and everything it said; past `timeout` seconds it is killed and Failed is raised."""
        if self.wait(timeout) is None:
            self.close()
            self._join(5)
            text = self._text(self._err) + self._text(self._out)
            raise Failed(f"no end after {timeout} s: {' '.join(self.argv)}\n{text[-4000:]}")
        self._join(20)
        self.close()
        return Result(self.code, self._text(self._out), self._text(self._err))

    def said(self):
        """Output and errors so far."""
        return self._text(self._out), self._text(self._err)

    def _join(self, seconds):
        for thread in self._readers or ():
            thread.join(seconds)

    @staticmethod
    def _text(chunks):
        return b"".join(chunks or ()).decode(errors="replace")

    def close(self):
        with contextlib.suppress(OSError):
            self.answers.close()
            self.connection.shutdown(2)
        self.connection.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def _client(directory, cpus):
    """The functions of rsh.py for a set."""
    space = {"__name__": "rsh", "DIRECTORY": directory, "CPUS": cpus}
    with open(os.path.join(HERE, "rsh.py"), encoding="utf-8") as f:
        exec(compile(f.read(), "rsh.py", "exec"), space)  # noqa: S102, our own file
    return space


class Hosts:
    """A set of hosts. Making one may raise NotPermitted.

    count        hosts
    rails        networks, each reaching every host
    direct       two hosts joined by veth pairs without a bridge (shorter way; for measurements)
    pin          host i keeps to processor (i - 1) modulo their number
    private_tmp  every host has its own /tmp, empty but for the project, TEST_CACHE, `share` and the set's directory if these lie there.
                 (With a common one, launchers that name files by process number collide: hosts count processes alike.)
    stays        the set outlives this process, until `down`
    user         use a user namespace even as root (to test that)
    """

    def __init__(
        self, count, rails=1, *, direct=False, pin=False, mtu=1500, private_tmp=True, share=(), stays=False, user=False
    ):
        if not 1 <= count <= 200 or not 1 <= rails <= 8:
            raise ValueError("1 to 200 hosts and 1 to 8 rails")
        if direct and count != 2:
            raise ValueError("hosts joined directly are two")
        os.environ["PATH"] = os.environ.get("PATH", "") + ":" + PATH  # `ip` is not on everybody's PATH
        need_tool("ip", "iproute2")
        cores = sorted(os.sched_getaffinity(0))
        names = [f"h{i}" for i in range(1, count + 1)]
        addresses = {name: [f"10.{77 + r}.0.{i}" for r in range(rails)] for i, name in enumerate(names, 1)}
        self.directory = tempfile.mkdtemp(prefix=PREFIX, dir="/tmp")
        config = {
            "directory": self.directory,
            "rails": rails,
            "direct": direct,
            "mtu": mtu,
            "private_tmp": private_tmp,
            "share": [os.path.abspath(p) for p in (ROOT, os.environ.get("TEST_CACHE") or ROOT, *share)],
            "stays": stays,
            "user": user,
            "cpus": {name: [cores[i % len(cores)]] for i, name in enumerate(names)} if pin else {},
            "hosts": [{"name": name, "addresses": addresses[name]} for name in names],
        }
        self._open(config)
        try:
            self._write_files()
            self._start()
        except BaseException:
            shutil.rmtree(self.directory, ignore_errors=True)
            raise

    @classmethod
    def attach(cls, directory):
        """An existing set, as `hosts.py up` makes them."""
        self = cls.__new__(cls)
        self.guardian = None
        with open(f"{directory}/config.json", encoding="utf-8") as f:
            self._open(json.load(f))
        return self

    def _open(self, config):
        self.config = config
        self.directory = config["directory"]
        self.rails, self.direct = config["rails"], config["direct"]
        self.names = [host["name"] for host in config["hosts"]]
        self.addresses = {host["name"]: host["addresses"] for host in config["hosts"]}
        self.rsh = f"{self.directory}/rsh"
        self._client = _client(self.directory, config["cpus"])

    def _write_files(self):
        lines = ["127.0.0.1 localhost", "::1 localhost ip6-localhost"]
        for name in self.names:
            for rail, address in enumerate(self.addresses[name]):
                lines.append(f"{address} {name} {name}-r0" if rail == 0 else f"{address} {name}-r{rail}")
        files = {
            "hosts": "\n".join(lines) + "\n",
            "resolv.conf": "",  # nobody to ask: an unknown name fails at once
            "config.json": json.dumps(self.config),
        }
        with open(os.path.join(HERE, "rsh.py"), encoding="utf-8") as f:
            head = f"#!{sys.executable} -IS\nDIRECTORY = {self.directory!r}\nCPUS = {self.config['cpus']!r}\n"
            files["rsh"] = head + f.read()
        for name, text in files.items():
            with open(f"{self.directory}/{name}", "w", encoding="utf-8") as f:
                f.write(text)
        os.chmod(self.rsh, 0o700)

    def _start(self):
        command = [sys.executable, "-IS", os.path.join(HERE, "node.py"), self.directory]
        stays = self.config["stays"]
        log = open(f"{self.directory}/log", "w", encoding="utf-8")  # noqa: SIM115, closed below
        with log:
            self.guardian = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL if stays else subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
                text=True,
                env=dict(os.environ, LC_ALL="C"),
            )
        said = self.guardian.stdout.readline().strip()
        if said != "ready":
            self.guardian.wait()
            if "ermitted" in said or "ermission" in said or "No space left" in said:
                raise NotPermitted(f"cannot make network namespaces here, neither as root nor in a user namespace: {said}")
            with contextlib.suppress(OSError), open(f"{self.directory}/log", encoding="utf-8") as f:
                said += " " + f.read().strip()[-500:]
            raise Failed(f"the hosts did not come up: {said}")

        # A cable has a carrier when both its ends are up; programs that start before that see no usable network.
        waiting = "n=0; while grep -qv up /sys/class/net/r[0-9]*/operstate && [ $n -lt 250 ]; do n=$((n+1)); sleep 0.02; done"
        for name in self.names:
            self.run(name, ["sh", "-c", waiting], timeout=20)

    # --- running things ---

    def start(self, host, argv, *, env=None, cwd=None, stdin=None, capture=True, hold=True):
        """Start a command in a host (or in the "switch"): a Process. `stdin`: a descriptor; default nothing."""
        if host != "switch" and host not in self.names:
            raise ValueError(f"no host {host}: there are {' '.join(self.names)}")
        environment = dict(os.environ)
        environment.update(env or {})
        request = {
            "run": [str(a) for a in argv],
            "env": environment,
            "cwd": cwd,
            "home": os.getcwd(),  # where there is one
            "cpus": self.config["cpus"].get(host),
            "hold": hold,
        }
        fds, mine, streams, readers = [], [], [[], []], []
        try:
            if stdin is None:
                stdin = os.open("/dev/null", os.O_RDONLY)
                mine.append(stdin)
            fds = [stdin, 1, 2]
            if capture:
                for i in range(2):
                    reader, writer = os.pipe()
                    fds[i + 1] = writer
                    mine.append(writer)
                    thread = threading.Thread(target=_drain, args=(reader, streams[i]), daemon=True)
                    thread.start()
                    readers.append(thread)
            try:
                connection = self._client["ask"](host, request, fds)
            except OSError as e:
                raise Failed(f"host {host} is gone: {e}") from None
        finally:
            for fd in mine:
                os.close(fd)
        return Process(connection, request["run"], *streams, readers)

    def run(self, host, argv, timeout=60, check=False, **options):
        """Run a command in a host to its end. Failed when it takes longer than `timeout`, or, with `check`, fails."""
        result = self.start(host, argv, **options).result(timeout)
        if check and result.code != 0:
            raise Failed(f"{host}: {' '.join(map(str, argv))}: {result}")
        return result

    def _ask(self, host, request):
        with self._client["ask"](host, request) as connection, connection.makefile("r") as answers:
            answer = json.loads(answers.readline() or '{"error": "no answer"}')
        if "error" in answer:
            raise Failed(f"{host}: {answer['error']}")
        return answer

    def processes(self, host):
        """[(pid, parent, state, command line)] of a host, as it sees them, without zombies."""
        return [tuple(p) for p in self._ask(host, {"ps": True})["ps"]]

    def leftovers(self, host):
        """What a job should not have left: processes, and files in /dev/shm and (if private) /tmp. A list of lines."""
        found = [f"process {pid}: {line}" for pid, _, _, line in self.processes(host)]
        keep = {p.split("/")[2] for p in [self.directory, *self.config["share"]] if p.startswith("/tmp/")}
        where = ["/dev/shm"] + (["/tmp"] if self.config["private_tmp"] else [])
        listed = self.run(host, ["find", *where, "-mindepth", "1", "-maxdepth", "1"], check=True).out
        for path in listed.splitlines():
            if not (path.startswith("/tmp/") and path.split("/")[2] in keep):
                found.append(f"file {path}")
        return found

    def settled(self, host, seconds, ignore=()):
        """`leftovers` but for `ignore`, once there are none or `seconds` have passed."""
        deadline = time.monotonic() + seconds
        while True:
            found = [line for line in self.leftovers(host) if line not in ignore]
            if not found or time.monotonic() > deadline:
                return found
            time.sleep(0.1)

    # --- breaking things ---

    def _ip(self, where, *args):
        self.run(where, ["ip", *args], check=True)

    def _port(self, host, rail):
        if not 0 <= rail < self.rails:
            raise ValueError(f"no rail {rail}: there are {self.rails}")
        return f"p{self.names.index(host) + 1}.{rail}"

    def _other(self, host):
        return self.names[1 - self.names.index(host)]

    def cut(self, host, rail, mend=False):
        """Pull a cable: the host's device loses its carrier but stays up."""
        state = "up" if mend else "down"
        port = self._port(host, rail)
        if self.direct:
            self._ip(self._other(host), "link", "set", f"r{rail}", state)
        else:
            self._ip("switch", "link", "set", port, state)

    def mend(self, host, rail):
        """Put a cable back; returns when the kernel has noticed, which it does within a second."""
        self.cut(host, rail, mend=True)
        places = [(host, f"r{rail}")]
        places.append((self._other(host), f"r{rail}") if self.direct else ("switch", self._port(host, rail)))
        for where, device in places:
            for _ in range(100):
                if "state UP" in self.run(where, ["ip", "link", "show", "dev", device], check=True).out:
                    break
                time.sleep(0.05)

    def device(self, host, rail, up):
        """The host's own device."""
        self._port(host, rail)
        self._ip(host, "link", "set", f"r{rail}", "up" if up else "down")

    def black_hole(self, host, rail, on=True):
        """The cable keeps its carrier, packets vanish, nobody is told."""
        port = self._port(host, rail)
        if self.direct:
            for name in self.names:
                self._drop(name, rail, 1000 if on else 0)
        else:
            self._ip("switch", "link", "set", port, *(["nomaster"] if on else ["master", f"br{rail}"]))

    def slow(self, host, rail, rate):
        """Limit a cable to a rate (tc's notation) in both directions; None: as fast as it goes."""
        places = [(host, f"r{rail}")]
        places.append((self._other(host), f"r{rail}") if self.direct else ("switch", self._port(host, rail)))
        for where, device in places:
            self.run(where, ["tc", "qdisc", "del", "dev", device, "root"])
            if rate:
                limit = ["tbf", "rate", rate, "burst", "256k", "latency", "20ms"]
                self.run(where, ["tc", "qdisc", "add", "dev", device, "root", *limit], check=True)

    def lose(self, host, rail, permille):
        """Lose this many of a thousand packets that arrive at a host; 0: none."""
        if self.direct:
            self._port(host, rail)
            self._drop(host, rail, permille)
            return
        # On the way out of the switch: netem works on what is sent.
        port = self._port(host, rail)
        self.run("switch", ["tc", "qdisc", "del", "dev", port, "root"])
        if permille:
            loss = ["tc", "qdisc", "add", "dev", port, "root", "netem", "loss", f"{permille / 10}%"]
            if self.run("switch", loss).code == 0:
                return
        self._drop(host, rail, permille)

    def _drop(self, host, rail, permille):
        """Drop arriving packets with nftables."""
        table = f"drop{rail}"
        if permille or shutil.which("nft"):
            need_tool("nft", "nftables")
            self.run(host, ["nft", "delete", "table", "netdev", table])
        if permille:
            hook = f"type filter hook ingress device r{rail} priority 0"
            rule = "drop" if permille >= 1000 else f"numgen random mod 1000 < {permille} drop"
            text = f"table netdev {table} {{ chain in {{ {hook}; {rule}; }}; }}"
            self.run(host, ["nft", text], check=True)

    def crash(self, host):
        """kill -9 all processes of a host at once; how many they were. Its network stack lives on and closes connections."""
        return self._ask(host, {"crash": True})["killed"]

    def power_off(self, host):
        """What a power failure looks like from elsewhere: no packet comes any more, and the processes are gone."""
        for rail in range(self.rails):
            self.black_hole(host, rail)
        return self.crash(host)

    # --- the end ---

    def close(self):
        """End everything in all hosts and remove the set."""
        with contextlib.suppress(OSError), open(f"{self.directory}/log", encoding="utf-8") as f:
            sys.stderr.write(f.read())  # empty unless something went wrong in here
        if self.guardian is None:
            with contextlib.suppress(OSError, ValueError):
                with open(f"{self.directory}/guardian.pid", encoding="utf-8") as f:
                    os.kill(int(f.read()), signal.SIGTERM)
            deadline = time.monotonic() + 15
            while os.path.exists(self.directory) and time.monotonic() < deadline:
                time.sleep(0.02)
        else:
            if self.guardian.stdin:
                self.guardian.stdin.close()
            else:
                self.guardian.terminate()
            try:
                self.guardian.wait(20)
            except subprocess.TimeoutExpired:
                self.guardian.kill()
                self.guardian.wait()
            self.guardian.stdout.close()
        shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def _drain(fd, into):
    with os.fdopen(fd, "rb", buffering=0) as f:
        while chunk := f.read(1 << 16):
            into.append(chunk)


def need_tool(command, package):
    """Have a command, installing its package where this process may; else NotPermitted."""
    if shutil.which(command):
        return
    if os.geteuid() == 0 and shutil.which("apt-get"):
        environment = dict(os.environ, DEBIAN_FRONTEND="noninteractive")
        for line in (["update", "-q"], ["install", "-q", "-y", "--no-install-recommends", package]):
            subprocess.run(["apt-get", *line], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment, check=False)
        if shutil.which(command):
            return
    raise NotPermitted(f"{command} is missing (on Debian or Ubuntu: apt-get install {package})")


def skipped_because():
    """Why hosts cannot be made here, or None."""
    try:
        Hosts(1).close()
    except NotPermitted as e:
        return str(e)
    return None


# --- for people --------------------------------------------------------------------------------------------------


def sets_up():
    """Directories of the sets that were made by `up`; those that a program made for itself are its own business."""
    return [os.path.dirname(p) for p in sorted(glob.glob(f"/tmp/{PREFIX}*/guardian.pid")) if os.access(p, os.R_OK)]


def chosen():
    """The set that commands are about."""
    directory = os.environ.get("TEST_HOSTS")
    if not directory:
        found = sets_up()
        if len(found) != 1:
            raise Failed("no hosts are up" if not found else f"several sets are up; set TEST_HOSTS to one of {' '.join(found)}")
        directory = found[0]
    return Hosts.attach(directory)


def run_for_people(hosts, host, command):
    """Run with the caller's streams; interrupts are passed on."""
    process = hosts.start(host, command or [os.environ.get("SHELL", "/bin/sh")], stdin=0, capture=False)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda n, _: process.signal(n))
    return process.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    up = commands.add_parser("up")
    up.add_argument("count", type=int)
    up.add_argument("--rails", type=int, default=1)
    up.add_argument("--mtu", type=int, default=1500)
    up.add_argument("--share", action="append", default=[], metavar="DIR", help="a directory below /tmp that hosts see")
    for switch in ("direct", "pin", "shared-tmp", "user"):
        up.add_argument(f"--{switch}", action="store_true")
    run = commands.add_parser("run")
    run.add_argument("host")
    run.add_argument("argv", nargs=argparse.REMAINDER)
    commands.add_parser("ps").add_argument("host", nargs="?")
    for name, word in (
        ("cut", None), ("mend", None), ("device", "up|down"), ("blackhole", "on|off"), ("slow", "rate|off"), ("lose", "permille|off")
    ):  # fmt: skip
        sub = commands.add_parser(name)
        sub.add_argument("host")
        sub.add_argument("rail", type=int)
        if word:
            sub.add_argument("value", metavar=word)
    commands.add_parser("crash").add_argument("host")
    commands.add_parser("rsh")
    commands.add_parser("down").add_argument("--all", action="store_true")
    args = parser.parse_args()

    if args.command == "up":
        options = dict(direct=args.direct, pin=args.pin, mtu=args.mtu, private_tmp=not args.shared_tmp, user=args.user)
        hosts = Hosts(args.count, args.rails, stays=True, share=args.share, **options)
        print(hosts.directory)
        return 0
    if args.command == "down" and args.all:
        for directory in sets_up():
            Hosts.attach(directory).close()
        return 0
    hosts = chosen()
    if getattr(args, "host", None) not in (None, "switch", *hosts.names):
        raise Failed(f"no host {args.host}: there are {' '.join(hosts.names)}")
    value = getattr(args, "value", None)
    if args.command == "run":
        return run_for_people(hosts, args.host, args.argv)
    if args.command == "ps":
        for name in [args.host] if args.host else hosts.names:
            for pid, parent, state, line in hosts.processes(name):
                print(f"{name} {pid:>7} {parent:>7} {state} {line}")
    elif args.command == "cut":
        hosts.cut(args.host, args.rail)
    elif args.command == "mend":
        hosts.mend(args.host, args.rail)
    elif args.command == "device":
        hosts.device(args.host, args.rail, value == "up")
    elif args.command == "blackhole":
        hosts.black_hole(args.host, args.rail, value == "on")
    elif args.command == "slow":
        hosts.slow(args.host, args.rail, None if value == "off" else value)
    elif args.command == "lose":
        hosts.lose(args.host, args.rail, 0 if value == "off" else int(value))
    elif args.command == "crash":
        print(f"{hosts.crash(args.host)} processes killed")
    elif args.command == "rsh":
        print(hosts.rsh)
    else:
        hosts.close()
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (Failed, NotPermitted, ValueError, OSError) as error:
        sys.exit(f"hosts.py: {error}")
