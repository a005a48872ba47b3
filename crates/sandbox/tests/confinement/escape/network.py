"""Sockets of every family. Outside, this runs as root of a separate, empty network namespace."""

import asyncio
import fcntl
import socket
import struct
import time

KINDS = {"stream": 1, "datagram": 2, "raw": 3, "seqpacket": 5, "packet": 10}


def attempt(act):
    try:
        act()
        return "done"
    except OSError as error:
        return errno.errorcode.get(error.errno, repr(error))


made = set()
for family in range(46):
    for kind, number in KINDS.items():
        got = attempt(lambda: os.close(call("socket", family, number, 0)))
        pair = attempt(lambda: call("socketpair", family, number, 0, (ctypes.c_int * 2)()))
        if INSIDE:
            judge(f"socket of family {family}, {kind}", got, "EPERM")
            if family != socket.AF_UNIX:
                judge(f"pair of family {family}, {kind}", pair, "EPERM")
        elif got == "done":
            made.add((family, kind))
if not INSIDE:
    check("sockets outside", {(1, "stream"), (2, "stream"), (2, "datagram"), (10, "stream"), (16, "raw")} <= made, made)


def pair(kind=socket.SOCK_STREAM):
    return socket.socketpair(socket.AF_UNIX, kind)


def talk():
    one, other = pair()
    one.send(b"word")
    assert other.recv(10) == b"word"


async def two_things():
    loop = asyncio.get_running_loop()
    process = await asyncio.create_subprocess_exec("/bin/echo", "word", stdout=-1)
    words, _ = await process.communicate()
    return await asyncio.gather(loop.run_in_executor(None, lambda: words), asyncio.sleep(0.01, 2))


def interfaces():
    """Check that only the loopback interface is visible, and that it is down."""
    names = {name for _, name in socket.if_nameindex()} if not INSIDE else set()
    one, _ = pair()
    for index in range(1, 20):
        try:
            names.add(fcntl.ioctl(one, 0x8910, struct.pack("16si20x", b"", index))[:16].rstrip(b"\0").decode())
        except OSError:
            pass
    # The others are tunnel interfaces that some kernels add to every new namespace.
    made_by_kernel = {"tunl0", "gre0", "gretap0", "erspan0", "ip_vti0", "ip6_vti0", "sit0", "ip6tnl0", "ip6gre0"}
    assert names <= {"lo"} | made_by_kernel, names
    flags = struct.unpack("16sh14x", fcntl.ioctl(one, 0x8913, struct.pack("16sh14x", b"lo", 0)))[1]
    assert not flags & 1, "lo is up"


def lift(one):
    fcntl.ioctl(one, 0x8914, struct.pack("16sh14x", b"lo", 1))


for kind in ("STREAM", "DGRAM", "SEQPACKET"):
    probe(f"pair of local sockets, {kind}", lambda: pair(getattr(socket, f"SOCK_{kind}")), "done", "done")
probe("talk over a pair", talk, "done", "done")
probe("asyncio with a child process and a thread", lambda: asyncio.run(two_things()), "done", "done")
probe("interfaces", interfaces, "done", "done")
probe("lift the loopback", lambda: lift(pair()[0]), "EPERM", "done")
probe("bind an abstract name", lambda: pair(socket.SOCK_DGRAM)[0].bind("\0probe"), "EPERM", "done")
probe("bind a path", lambda: pair(socket.SOCK_DGRAM)[0].bind(f"{WORKSPACE}/socket"), "EPERM", "done")
probe("connect", lambda: pair(socket.SOCK_DGRAM)[0].connect("\0probe"), "EPERM", "ECONNREFUSED")
probe("listen", lambda: pair()[0].listen(), "EPERM", ("EINVAL", "done"))
kept, _ = pair()
probe("accept", lambda: call("accept", kept.fileno(), 0, 0), "EPERM", "EINVAL")
probe("accept4", lambda: call("accept4", kept.fileno(), 0, 0, 0), "EPERM", "EINVAL")
probe("ping", lambda: call("socket", socket.AF_INET, socket.SOCK_RAW, 1), "EPERM", "done")
probe("see all packets", lambda: call("socket", 17, socket.SOCK_RAW, 0x300), "EPERM", "done")


def name_by_credentials():
    """Send on a datagram socket that requests credentials, to which the kernel then assigns an abstract name."""
    one, _ = pair(socket.SOCK_DGRAM)
    one.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    one.send(b"word")
    assert one.getsockname(), "no name"


probe("get an abstract name without bind", name_by_credentials, "EPERM", "done")


def resolve(name):
    begun = time.monotonic()
    try:
        socket.getaddrinfo(name, 80)
    finally:
        assert time.monotonic() - begun < 3, "it took long"


if INSIDE:
    got = outcome(lambda: resolve("example.com"))
    judge("resolve a name", got.split("(")[0], ("gaierror", "EPERM"))
    check("why a name is not resolved can be read", "name" in got.lower() or got == "EPERM", got)
    got = outcome(lambda: __import__("urllib.request").request.urlopen("http://192.0.2.1/", timeout=5))
    judge(
        "fetch a page",
        "URLError" if "URLError" in got or "Operation not permitted" in got or got == "EPERM" else got,
        "URLError",
    )
