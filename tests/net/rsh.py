# An `ssh` into emulated hosts. hosts.py writes it, with the two lines above it, into the directory of the set.
#
#   rsh [ssh options] [user@]HOST [command ...]
#
# Like ssh: arguments are joined by blanks and given to a shell, in a fresh environment and the home directory, in a session
# of its own that outlives this process; the exit code is the command's, or 255 when the host is not there.
import array
import json
import os
import socket
import sys


def find(host):
    """The name of the emulated host that a name or an address belongs to."""
    with open(f"{DIRECTORY}/hosts", encoding="utf-8") as f:
        for line in f:
            words = line.split()
            if host in words and len(words) > 1 and os.path.exists(f"{DIRECTORY}/{words[1].split('-')[0]}.sock"):
                return words[1].split("-")[0]
    return None


def ask(name, request, fds=()):
    """Send a request to a host (or to the switch) and return the connection."""
    data = json.dumps(request).encode()
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.connect(f"{DIRECTORY}/{name}.sock")
        connection.sendmsg([len(data).to_bytes(4, "big")], rights)
        connection.sendall(data)
    except OSError:
        connection.close()
        raise
    return connection


def main():
    args = sys.argv[1:]
    stdin = 0
    while args and args[0].startswith("-"):
        option = args.pop(0)
        if option == "--":
            break
        if option in ("-n", "-f"):
            stdin = os.open("/dev/null", os.O_RDONLY)
        if len(option) == 2 and option[1] in "BbcDEeFIiJLlmOopQRSWw" and args:
            args.pop(0)
    if not args:
        sys.exit("usage: rsh [ssh options] HOST [command ...]")
    target = args.pop(0).rsplit("@", 1)[-1]
    name = find(target)
    if name is None:
        print(f"rsh: could not resolve hostname {target}", file=sys.stderr)
        return 255
    env = {k: os.environ[k] for k in ("HOME", "USER", "LOGNAME", "LANG") if k in os.environ}
    env.update(SHELL="/bin/sh", PATH="/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", HOST=name)
    request = {
        "run": ["/bin/sh", "-c", " ".join(args)] if args else ["/bin/sh"],
        "env": env,
        "home": env.get("HOME"),
        "cpus": CPUS.get(name),
    }
    try:
        connection = ask(name, request, [stdin, 1, 2])
    except OSError as e:
        print(f"rsh: connect to host {target}: {e.strerror}", file=sys.stderr)
        return 255
    # Only the command keeps the streams open, so that their ends are seen by whom they concern.
    null = os.open("/dev/null", os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    with connection.makefile("r") as answers:
        for line in answers:
            answer = json.loads(line)
            if "error" in answer:
                print(f"rsh: {target}: {answer['error']}", file=sys.stderr)
            if "code" in answer:
                return answer["code"]
    print(f"rsh: connection to {target} closed", file=sys.stderr)
    return 255


if __name__ == "__main__":
    sys.exit(main())
