"""What runs inside a set of emulated hosts: the guardian, the switch, and the first process of every host.

Started by hosts.py, never by hand. The tree of processes:

    guardian        outside; ends when its owner does, ends all below it, removes the directory of the set
      switch        own user (if need be), network, mount, UTS, IPC and pid namespaces; holds one bridge per rail
        host h1     own network, mount, UTS, IPC and pid namespaces
        host h2     ...

All namespaces are held by these processes alone, and the hosts' pid namespaces are inside the switch's: when the switch
dies the kernel ends everything in all hosts and takes the devices away. Switch and hosts each serve a socket in the
directory of the set, which runs commands in them: see `Server`.
"""

import array
import ctypes
import errno
import fcntl
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import time

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000
HOST_SPACES = CLONE_NEWNET | CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWPID
MS_BIND, MS_REC, MS_PRIVATE, MS_MOVE = 4096, 16384, 1 << 18, 8192
PR_SET_PDEATHSIG = 1

libc = ctypes.CDLL(None, use_errno=True)


def check(result, what):
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")


def unshare(flags):
    check(libc.unshare(flags), "making namespaces")


def mount(source, target, kind=None, flags=0, data=None):
    encode = lambda text: None if text is None else os.fsencode(text)
    check(
        libc.mount(encode(source), encode(target), encode(kind), ctypes.c_ulong(flags), encode(data)),
        f"mounting {kind or source} at {target}",
    )


def dies_with_parent():
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def write(path, text):
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)


def try_write(path, text):
    try:
        write(path, text)
    except OSError:
        pass  # older kernels lack some switches


def ip_batch(lines):
    """Several `ip` commands at once."""
    done = subprocess.run(
        ["ip", "-batch", "-"], input="\n".join(lines) + "\n", stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if done.returncode != 0:
        raise OSError(errno.EIO, f"ip failed: {done.stdout.strip()}")


def read_once(fd):
    """One message from a pipe, empty if its writers have ended; not up to the end, which others may hold open."""
    try:
        return os.read(fd, 4096)
    finally:
        os.close(fd)


def become_root_of_a_user_namespace():
    uid, gid = os.getuid(), os.getgid()
    unshare(CLONE_NEWUSER)
    write("/proc/self/setgroups", "deny")
    write("/proc/self/uid_map", f"0 {uid} 1")
    write("/proc/self/gid_map", f"0 {gid} 1")


# --- a server of commands ----------------------------------------------------------------------------------------


class Server:
    """Runs commands in this process's namespaces for whoever may open its socket.

    A request is one message on a stream: 4 bytes of length, then JSON, with descriptors 0, 1, 2 of the command attached.
      {"run": [argv], "env": {..}, "cwd" or "home": "..", "cpus": [..], "hold": bool}
          answers {"pid": n} when started, {"code": n} when ended (128 + signal if killed). `hold`: killed, with its
          session, when the connection closes first. A byte sent later is a signal for the command's group.
      {"crash": true}    kills every process of the host but this one, at once; answers {"killed": n}
      {"ps": true}       answers {"ps": [[pid, parent, state, command line]..]}
    """

    def __init__(self, path, log=None):
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listener.bind(path)
        self.listener.listen(128)
        self.children = {}  # pid: connection or None
        self.connections = {}  # descriptor: [connection, pid, hold]
        self.log = log
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        os.set_blocking(reader, False)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self.wakeup = reader

    def serve(self):
        poll = select.poll()
        poll.register(self.listener, select.POLLIN)
        poll.register(self.wakeup, select.POLLIN)
        self.poll = poll
        while True:
            self.reap()
            for fd, _ in poll.poll():
                if fd == self.listener.fileno():
                    connection, _ = self.listener.accept()
                    self.connections[connection.fileno()] = [connection, None, False]
                    poll.register(connection, select.POLLIN)
                elif fd == self.wakeup:
                    try:
                        os.read(self.wakeup, 4096)
                    except BlockingIOError:
                        pass
                elif fd in self.connections:
                    self.heard(fd)

    def reap(self):
        ended = 0
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == 0:
                break
            ended += 1
            fd = self.children.pop(pid, None)
            if fd is not None and fd in self.connections and self.connections[fd][1] == pid:
                code = 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
                self.answer(fd, {"code": code})
                self.connections[fd][1] = None
                self.close(fd)
        return ended

    def close(self, fd):
        connection, pid, hold = self.connections.pop(fd)
        self.poll.unregister(fd)
        connection.close()
        if pid is not None and hold:
            kill_session(pid)

    def answer(self, fd, message):
        try:
            self.connections[fd][0].sendall(json.dumps(message).encode() + b"\n")
        except OSError:
            pass  # nobody is waiting any more

    def heard(self, fd):
        connection, pid, _ = self.connections[fd]
        if pid is not None:  # a signal, or the end
            try:
                data = connection.recv(64)
            except OSError:
                data = b""
            if not data:
                self.close(fd)
            for number in data:
                try:
                    os.killpg(pid, number)
                except (OSError, ValueError):
                    pass
            return
        fds = []
        try:
            request, fds = receive(connection)
            self.handle(fd, request, fds)
        except (OSError, ValueError, KeyError, EOFError) as e:
            if fd in self.connections:
                if not isinstance(e, EOFError):
                    self.answer(fd, {"error": str(e), "code": 255})
                self.close(fd)
        finally:
            for f in fds:
                os.close(f)

    def handle(self, fd, request, fds):
        if "run" in request:
            pid = start(request, fds, self.listener.fileno())
            self.children[pid] = fd
            self.connections[fd][1] = pid
            self.connections[fd][2] = bool(request.get("hold"))
            self.answer(fd, {"pid": pid})
            return
        if "crash" in request:
            killed = len(processes())
            try:
                os.kill(-1, signal.SIGKILL)  # everybody in this pid namespace but its first process
            except ProcessLookupError:
                pass
            deadline = time.monotonic() + 10
            while processes() and time.monotonic() < deadline:
                self.reap()
                time.sleep(0.005)
            self.answer(fd, {"killed": killed})
        elif "ps" in request:
            self.reap()
            self.answer(fd, {"ps": processes()})
        else:
            raise ValueError(f"unknown request {request}")
        self.close(fd)


def receive(connection):
    """One message and its descriptors."""
    size = array.array("i").itemsize
    data, ancillary, _, _ = connection.recvmsg(4, socket.CMSG_SPACE(3 * size))
    fds = array.array("i")
    for level, kind, payload in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(payload[: len(payload) - len(payload) % size])
    fds = list(fds)
    try:
        if not data:
            raise EOFError
        while len(data) < 4:
            more = connection.recv(4 - len(data))
            if not more:
                raise EOFError
            data += more
        length = int.from_bytes(data, "big")
        data = b""
        while len(data) < length:
            more = connection.recv(min(1 << 16, length - len(data)))
            if not more:
                raise EOFError
            data += more
        return json.loads(data), fds
    except BaseException:
        for f in fds:
            os.close(f)
        raise


def start(request, fds, listener):
    """Start a command in a session of its own; its pid."""
    if len(fds) != 3:
        raise ValueError(f"{len(fds)} descriptors came with the command, 3 are needed")
    argv, env = request["run"], request.get("env", {})
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setsid()
            signal.set_wakeup_fd(-1)
            for number in range(1, signal.NSIG):
                if number not in (signal.SIGKILL, signal.SIGSTOP, 32, 33):
                    signal.signal(number, signal.SIG_DFL)
            # Above the three, so that none of them is overwritten before it is used.
            fds = [fcntl.fcntl(f, fcntl.F_DUPFD_CLOEXEC, 100) for f in fds]
            for i, f in enumerate(fds):
                os.dup2(f, i)
            if request.get("cpus"):
                os.sched_setaffinity(0, request["cpus"])
            home = request.get("home")
            os.chdir(request.get("cwd") or (home if home and os.path.isdir(home) else "/"))
            os.execvpe(argv[0], argv, env)
        except BaseException as e:  # noqa: B036, the child must not return into the server
            try:
                os.write(writer, str(e).encode()[:500])
            finally:
                os._exit(127)
    os.close(writer)
    with os.fdopen(reader, "rb") as f:
        why = f.read()
    if why:
        os.waitpid(pid, 0)
        raise ValueError(f"cannot run {argv[0]}: {why.decode()}")
    return pid


def processes():
    """[pid, parent, state, command line] of everybody in this pid namespace but its first process and zombies."""
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit() or name == "1":
            continue
        try:
            with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as f:
                stat = f.read()
            with open(f"/proc/{name}/cmdline", encoding="utf-8", errors="replace") as f:
                line = f.read().replace("\0", " ").strip()
        except OSError:
            continue
        comm = stat[stat.index("(") + 1 : stat.rindex(")")]
        state, parent = stat[stat.rindex(")") + 2 :].split()[:2]
        if state not in "ZX":
            found.append([int(name), int(parent), state, line or f"[{comm}]"])
    return found


def kill_session(leader):
    for name in os.listdir("/proc"):
        if not name.isdigit() or name == "1":
            continue
        try:
            if os.getsid(int(name)) == leader:
                os.kill(int(name), signal.SIGKILL)
        except OSError:
            pass


# --- one host ----------------------------------------------------------------------------------------------------


def host_main(config, host, go):
    """The first process of a host: arrange its view of the machine, its devices, then serve."""
    name, directory = host["name"], config["directory"]
    mount("none", "/", None, MS_REC | MS_PRIVATE)
    name_bytes = name.encode()
    check(libc.sethostname(name_bytes, len(name_bytes)), "naming the host")
    private_proc_and_sys(directory)
    os.makedirs("/dev/shm", exist_ok=True)
    mount("tmpfs", "/dev/shm", "tmpfs", 0, "mode=1777")
    for file in ("hosts", "resolv.conf"):
        if os.path.exists(f"/etc/{file}"):
            mount(f"{directory}/{file}", os.path.realpath(f"/etc/{file}"), None, MS_BIND)
    if os.path.exists("/etc/hostname"):
        write(f"{directory}/{name}.hostname", name + "\n")
        mount(f"{directory}/{name}.hostname", "/etc/hostname", None, MS_BIND)
    try:
        mount("mqueue", "/dev/mqueue", "mqueue")
    except OSError:
        pass
    if config["private_tmp"]:
        own_tmp([directory, *config["share"]], f"{directory}/staging.{name}")
    if os.read(go, 1) != b"+":  # the switch made the devices
        raise OSError(errno.EIO, "the switch did not make its devices")
    for key, value in (
        ("all/arp_ignore", 1),
        ("all/arp_announce", 2),
        ("all/rp_filter", 0),
        ("default/rp_filter", 0),
    ):
        try_write(f"/proc/sys/net/ipv4/conf/{key}", str(value))
    try_write("/proc/sys/net/ipv6/conf/default/accept_dad", "0")
    try_write("/proc/sys/net/ipv4/ping_group_range", "0 2147483647")
    lines = ["link set lo up"]
    for rail in range(config["rails"]):
        lines.append(f"addr add {host['addresses'][rail]}/24 brd + dev r{rail}")
        lines.append(f"link set r{rail} up")
    ip_batch(lines)
    return Server(f"{directory}/{name}.sock")


def private_proc_and_sys(directory):
    mount("proc", "/proc", "proc")
    # A sysfs that shows this host's devices; control groups stay where they are.
    staging = f"{directory}/staging"
    os.makedirs(staging, exist_ok=True)
    try:
        cgroups = os.path.isdir("/sys/fs/cgroup")
        if cgroups:
            mount("/sys/fs/cgroup", staging, None, MS_BIND | MS_REC)
        mount("sysfs", "/sys", "sysfs")
        if cgroups:
            mount(staging, "/sys/fs/cgroup", None, MS_MOVE)
    except OSError:
        pass  # programs then see the outer /sys/class/net; nothing else depends on it


def own_tmp(visible, staging):
    """An empty /tmp, but for directories below it that have to be seen."""
    os.makedirs(staging, exist_ok=True)
    mount("tmpfs", staging, "tmpfs", 0, "mode=1777")
    for path in sorted({os.path.realpath(p) for p in visible}):
        if path.startswith("/tmp/"):
            target = staging + path[4:]
            if os.path.isdir(path):
                os.makedirs(target, exist_ok=True)
                mount(path, target, None, MS_BIND | MS_REC)
    mount(staging, "/tmp", None, MS_MOVE)


# --- the switch --------------------------------------------------------------------------------------------------


def switch_main(config):
    """The first process of the switch's pid namespace: bridges, hosts and cables, then serve."""
    dies_with_parent()
    mount("none", "/", None, MS_REC | MS_PRIVATE)
    mount("proc", "/proc", "proc")
    mtu = config["mtu"]
    lines = ["link set lo up"]
    if not config["direct"]:
        for rail in range(config["rails"]):
            lines.append(f"link add br{rail} type bridge forward_delay 0 stp_state 0 mcast_snooping 0")
            lines.append(f"link set br{rail} mtu {mtu} up")
    ip_batch(lines)
    started = [start_host(config, host) for host in config["hosts"]]
    lines = []
    for rail in range(config["rails"]):
        if config["direct"]:
            one, two = started[0][0], started[1][0]
            lines.append(f"link add r{rail} mtu {mtu} netns {one} type veth peer name r{rail} mtu {mtu} netns {two}")
            continue
        for number, (pid, _, _) in enumerate(started, 1):
            lines.append(f"link add p{number}.{rail} mtu {mtu} type veth peer name r{rail} mtu {mtu} netns {pid}")
            lines.append(f"link set p{number}.{rail} master br{rail} up")
    ip_batch(lines)
    for _, go, _ in started:
        os.write(go, b"+")
    for host, (_, go, report) in zip(config["hosts"], started):
        said = read_once(report)
        os.close(go)
        if said != b"ready":
            raise OSError(errno.EIO, f"host {host['name']}: {said.decode() or 'ended at once'}")
    return Server(f"{config['directory']}/switch.sock")


def start_host(config, host):
    """Fork a host's first process. Its pid as the switch sees it, the pipe that lets it go on, and its report."""
    go_reader, go = os.pipe()
    report, report_writer = os.pipe()
    pid_reader, pid_writer = os.pipe()
    middle = os.fork()
    if middle == 0:
        try:
            unshare(HOST_SPACES)
            pid = os.fork()
        except OSError as e:
            os.write(report_writer, str(e).encode())
            os._exit(1)
        if pid != 0:
            os.write(pid_writer, str(pid).encode())
            os._exit(0)  # the host becomes the switch's child
        for fd in (go, report, pid_reader, pid_writer):
            os.close(fd)
        serve(lambda: host_main(config, host, go_reader), report_writer)
    for fd in (go_reader, report_writer, pid_writer):
        os.close(fd)
    text = read_once(pid_reader)
    if not text:
        raise OSError(errno.EPERM, os.read(report, 500).decode() or "cannot make a host")
    return int(text), go, report


def serve(prepare, report):
    """Prepare, report success or why not, then serve for ever."""
    try:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        server = prepare()
        os.write(report, b"ready")
        os.close(report)
        report = None
        server.serve()
    except BaseException as e:  # noqa: B036, nobody else would say it
        if report is not None:
            os.write(report, f"{e}".encode()[:500])
        else:
            import traceback

            traceback.print_exc()
            sys.stderr.flush()
    os._exit(1)


# --- the guardian ------------------------------------------------------------------------------------------------


def guardian_main(directory):
    """Start the switch; when the owner ends (end of standard input) or asks (SIGTERM), end and remove everything."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    with open(f"{directory}/config.json", encoding="utf-8") as f:
        config = json.load(f)
    # A set with an owner ends with it, and for nobody else.
    signal.signal(signal.SIGTERM, (lambda *_: None) if config["stays"] else signal.SIG_IGN)
    if config["stays"]:
        write(f"{directory}/guardian.pid", str(os.getpid()))
    wake, wake_writer = os.pipe()
    os.set_blocking(wake_writer, False)
    signal.set_wakeup_fd(wake_writer)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    report, report_writer = os.pipe()
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    middle = os.fork()
    if middle == 0:
        os.close(report)
        signal.set_wakeup_fd(-1)
        try:
            null = os.open("/dev/null", os.O_RDWR)
            os.dup2(null, 0)
            os.dup2(null, 1)
            dies_with_parent()
            if os.geteuid() != 0 or config["user"]:
                become_root_of_a_user_namespace()
            unshare(HOST_SPACES)
            pid = os.fork()
        except OSError as e:
            os.write(report_writer, str(e).encode())
            os._exit(1)
        if pid == 0:
            serve(lambda: switch_main(config), report_writer)
        os.close(report_writer)
        os.waitpid(pid, 0)
        os._exit(0)
    os.close(report_writer)
    said = read_once(report)
    try:
        os.write(1, (said or b"the switch ended at once") + b"\n")
    except OSError:
        said = b""  # the owner has ended meanwhile
    watched = [wake] if config["stays"] or said != b"ready" else [wake, 0]
    null = os.open("/dev/null", os.O_WRONLY)
    os.dup2(null, 1)
    while said == b"ready":
        # The end of standard input, SIGTERM, or the end of the switch.
        ready, _, _ = select.select(watched, [], [])
        if 0 in ready:
            break
        numbers = os.read(wake, 64)
        ended, status = os.waitpid(middle, os.WNOHANG)
        if ended:
            print(f"the switch ended before its time, status {status}", file=sys.stderr)
            break
        # SIGCHLD comes also when somebody has stopped the switch and lets it go on.
        if signal.SIGTERM in numbers:
            break
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    try:
        os.kill(middle, signal.SIGKILL)
        os.waitpid(middle, 0)
    except OSError:
        pass
    wait_for_switch(directory)
    shutil.rmtree(directory, ignore_errors=True)


def wait_for_switch(directory):
    """The kernel is done with the set when nobody accepts on the switch's socket any more."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as s:
                s.connect(f"{directory}/switch.sock")
        except OSError:
            return
        time.sleep(0.01)


if __name__ == "__main__":
    guardian_main(sys.argv[1])
