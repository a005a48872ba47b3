"""A sandbox whose code may use a proxy: everything else that it could try to reach.

Outside, this runs as root of a separate network namespace, with listeners of its own."""

import _socket
import array
import asyncio
import fcntl
import socket
import struct
import urllib.request

PROXY = ("127.0.0.1", 3128)
KINDS = {"stream": 1, "datagram": 2, "raw": 3, "seqpacket": 5, "packet": 10}
# Without Landlock's rules for TCP, the namespace still has nothing at that address.
NOWHERE = ("EACCES", "ECONNREFUSED", "ENETUNREACH")


def flags_of_loopback(new=None):
    with socket.socket() as one:
        if new is not None:
            fcntl.ioctl(one, 0x8914, struct.pack("16sh14x", b"lo", new))
        return struct.unpack("16sh14x", fcntl.ioctl(one, 0x8913, struct.pack("16sh14x", b"lo", 0)))[1]


listeners = []
if not INSIDE:
    flags_of_loopback(1)
    for port in (PROXY[1], 3129):
        listeners.append(socket.create_server(("127.0.0.1", port)))


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
            judge(f"socket of family {family}, {kind}", got, "done" if (family, number) == (2, 1) else "EPERM")
            paired = family == socket.AF_UNIX and number in (1, 5)
            judge(f"pair of family {family}, {kind}", pair, "done" if paired else "EPERM")
        elif got == "done":
            made.add((family, kind))
if not INSIDE:
    wanted = {(1, "stream"), (1, "datagram"), (2, "stream"), (2, "datagram"), (10, "stream"), (16, "raw")}
    check("sockets outside", wanted <= made, made)


def connect(address, family=socket.AF_INET):
    with socket.socket(family) as one:
        one.settimeout(5)
        one.connect(address)


def datagram(family, address):
    with socket.socket(family, socket.SOCK_DGRAM) as one:
        one.sendto(b"word", address)


def bind():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))


def listen():
    with socket.socket() as one:
        one.listen()


def option(level, name, value, connected=False):
    with socket.socket() as one:
        if connected:
            one.connect(PROXY)
        one.setsockopt(level, name, value)


def send_descriptor():
    one, _ = socket.socketpair()
    # Beside what hides it from asyncio.
    _socket.socket.sendmsg(one, [b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0]))])


def fast_open(port):
    with socket.socket() as one:
        one.sendto(b"word", 0x20000000, ("127.0.0.1", port))


def listening():
    """Return the descriptors of this process that are listening sockets."""
    found = []
    for number in range(256):
        try:
            duplicate = os.dup(number)
        except OSError:
            continue
        try:
            with socket.socket(fileno=duplicate) as one:
                if one.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                    found.append(number)
        except OSError:
            os.close(duplicate)
    return found


flags = struct.pack("HHI", 0, 0, 0)
code = ctypes.create_string_buffer(struct.pack("HBBI", 6, 0, 0, 0xFFFFFFFF))
program = struct.pack("HxxxxxxP", 1, ctypes.addressof(code))

probe("the proxy", lambda: connect(PROXY), "done", "done")
probe("stream with flags", lambda: os.close(call("socket", 2, 1 | 0o2004000, 6)), "done", "done")
probe("another port of the loopback", lambda: connect(("127.0.0.1", 3129)), NOWHERE, "done")
probe("another address of the loopback", lambda: connect(("127.0.0.2", 3129)), NOWHERE, "ECONNREFUSED")
probe("the listener of the host", lambda: connect(("127.0.0.1", HOST_PORT)), NOWHERE, None)
for place in ("10.0.0.1", "169.254.169.254", "192.0.2.1", "255.255.255.255"):
    probe(f"connect to {place}", lambda: connect((place, 80)), (*NOWHERE, "EHOSTUNREACH"), None)
probe("UDP", lambda: datagram(socket.AF_INET, ("127.0.0.1", 53)), "EPERM", "done")
probe("IPv6", lambda: connect(("::1", 3129), socket.AF_INET6), "EPERM", ("ECONNREFUSED", "EADDRNOTAVAIL"))
probe("ping", lambda: call("socket", 2, socket.SOCK_RAW, 1), "EPERM", "done")
probe("ask for routes", lambda: call("socket", 16, socket.SOCK_RAW, 0), "EPERM", "done")
probe("see all packets", lambda: call("socket", 17, socket.SOCK_RAW, 0x300), "EPERM", "done")
for name, number in {"MPTCP": 262, "SMC": 256, "SCTP": 132}.items():
    absent = {name: "the kernel was built without it" for name in ("EPROTONOSUPPORT", "ESOCKTNOSUPPORT", "ENOPROTOOPT")}
    probe(f"stream of {name}", lambda: call("socket", 2, 1, number), "EPERM", "done", absent=absent)
probe("abstract name", lambda: connect("\0probe", socket.AF_UNIX), "EPERM", "ECONNREFUSED")
probe("local datagrams", lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM), "EPERM", "done")
probe("local stream", lambda: socket.socketpair(), "done", "done")
already = ("EISCONN", "ECONNREFUSED", "EINVAL", "EPERM")
probe("connect one of a pair", lambda: socket.socketpair()[0].connect("\0probe"), already, already)
probe("bind", bind, "EPERM", "done")
probe("listen", listen, "EPERM", "done")
kept = socket.socket()
probe("accept", lambda: call("accept", kept.fileno(), 0, 0), "EPERM", "EINVAL")
probe("accept4", lambda: call("accept4", kept.fileno(), 0, 0, 0), "EPERM", "EINVAL")
probe("take the loopback down", lambda: flags_of_loopback(0), "EPERM", None)
probe("the loopback is up", lambda: flags_of_loopback() & 1 or 1 / 0, "done", "done")
probe("fast open", lambda: fast_open(3129), "EPERM", "done")
probe("send a descriptor", send_descriptor, "EPERM", "done")
probe("no delay", lambda: option(6, 1, 1), "done", "done")
probe("keep alive", lambda: option(1, 9, 1), "done", "done")
probe("another protocol on top", lambda: option(6, 31, b"tls", True), "EPERM", ("done", "ENOENT"))
probe("fast open by option", lambda: option(6, 30, 1), "EPERM", "done")
probe("filter in the kernel", lambda: option(1, 26, program), "EPERM", "done")
probe("option of IP", lambda: option(0, 1, 16), "EPERM", "done")
probe("credentials", lambda: socket.socketpair()[0].setsockopt(1, 16, 1), "EPERM", "done")
probe("take a descriptor of a process", lambda: call("pidfd_getfd", 0, 0, 0), "EPERM", ("EBADF", "EINVAL"))
# Outside, the listeners of this script show that such descriptors are found.
check("listening descriptors", len(listening()) == (0 if INSIDE else 2), listening())


def fetch():
    with urllib.request.urlopen("http://example.test/path", timeout=5) as answer:
        assert answer.status == 201, answer.status
        text = answer.read().decode()
    assert text.startswith("GET http://example.test/path HTTP/1.1"), text


async def asynchronous():
    reader, writer = await asyncio.open_connection(*PROXY)
    writer.writelines([b"PUT /a HTTP/1.1\r\ncontent-length: 300000\r\n", b"\r\n"])
    writer.writelines([b"x" * 100_000] * 3)
    await writer.drain()
    answer = await reader.read()
    assert answer.startswith(b"HTTP/1.1 201") and answer.count(b"x" * 1000) == 300, answer[:100]


def refuse(name):
    try:
        socket.getaddrinfo(name, 80)
    except socket.gaierror:
        return
    raise AssertionError("resolved")


def flood():
    """Send to a connection that nothing reads from."""
    with socket.socket() as one:
        one.connect(PROXY)
        one.sendall(b"HOLD / HTTP/1.1\r\n")
        one.settimeout(0.5)
        sent = 0
        try:
            while sent < 8_000_000:
                sent += one.send(b"x" * 65536)
        except TimeoutError:
            pass
    assert 65536 < sent < 3_000_000, sent


if INSIDE:
    probe("fetch a page", fetch, "done")
    probe("asyncio", lambda: asyncio.run(asynchronous()), "done")
    probe("resolve a name", lambda: refuse("example.com"), "done")
    probe("fill buffers", flood, "done")
