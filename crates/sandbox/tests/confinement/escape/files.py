"""Files outside the workspace. On the host, the same user can read CANARY and write to OUTSIDE."""

import time

GONE = ("ENOENT", "EACCES", "EROFS", "EPERM")


def write(path):
    with open(path, "w") as file:
        file.write("written by a probe")


def read(path):
    with open(path, "rb") as file:
        file.read(64)


def at(name):
    return f"{WORKSPACE}/{name}"


write(at("mine"))
os.mkdir(at("folder"))

# Controls: the same functions where they are permitted.
probe("write in the workspace", lambda: write(at("written")), "done", "done")
probe("read in the workspace", lambda: read(at("mine")), "done", "done")
for folder in ("/tmp", "/artifacts"):
    probe(f"write in {folder}", lambda: write(f"{folder}/written"), "done")

probe("read a host file", lambda: read(CANARY), "ENOENT", "done")
probe("stat a host file", lambda: os.stat(CANARY), "ENOENT", "done")
probe("write by an absolute path", lambda: write(f"{OUTSIDE}/absolute"), "ENOENT", "done")
probe("write by ..", lambda: write(at("../" * 20 + f"{OUTSIDE}/dots")), "ENOENT", "done")
probe("write above the workspace", lambda: write(at("../above")), GONE, "done")
for path in (
    "/etc/shadow", "/root", "/home", "/var", "/sys", "/run", "/boot", "/etc/ssl", "/etc/ssh", "/sys/fs/cgroup",
):
    if INSIDE or os.path.lexists(path):
        probe(f"find {path}", lambda: os.lstat(path), "ENOENT", "done")
for folder in (
    "/", "/usr", "/usr/bin", "/usr/lib", "/usr/local", "/etc", "/coracle", "/coracle/coracle_guest", "/proc", "/dev",
    "/skills", "/tools", "/proc/self", "/home", "/root", "/var/tmp", "/run", "/sys",
):
    probe(f"write in {folder}", lambda: write(f"{folder}/probe"), GONE)
    probe(f"make a folder in {folder}", lambda: os.mkdir(f"{folder}/probe"), GONE)
for path in ("/etc/passwd", "/usr/bin/env", "/coracle/coracle_guest/zygote.py", "/etc/ld.so.cache"):
    probe(f"overwrite {path}", lambda: write(path), GONE)
    probe(f"remove {path}", lambda: os.unlink(path), GONE + ("EXDEV",))
    probe(f"read {path}", lambda: read(path), "done")

# Links.
os.symlink(OUTSIDE, at("to-outside"))
os.symlink(CANARY, at("to-canary"))
os.symlink("/etc/passwd", at("to-passwd"))
os.symlink("folder", at("to-folder"))
probe("write through a link to a folder", lambda: write(at("to-outside/linked")), "ENOENT", "done")
probe("read through a link", lambda: read(at("to-canary")), "ENOENT", "done")
probe("read through a link that the host made", lambda: read(at("planted")), "ENOENT", "done")
probe("write through a link to a file", lambda: write(at("to-passwd")), GONE)
probe("write through a link in the workspace", lambda: write(at("to-folder/linked")), "done", "done")
probe("hard link to a host file", lambda: os.link(CANARY, at("hard")), "ENOENT", "done")
for path in ("/usr/bin/env", "/etc/passwd", "/coracle/coracle_guest/zygote.py"):
    probe(f"hard link to {path}", lambda: os.link(path, at("hard-system")), ("EXDEV", "EACCES"))
probe("hard link out of the workspace", lambda: os.link(at("mine"), f"{OUTSIDE}/hard"), "ENOENT", "done")
probe("hard link within the workspace", lambda: os.link(at("mine"), at("hard-mine")), "done", "done")
probe("rename out of the workspace", lambda: os.rename(at("folder"), f"{OUTSIDE}/moved"), "ENOENT", "done")
probe("rename into /usr", lambda: os.rename(at("mine"), "/usr/mine"), ("EXDEV", "EROFS", "EACCES"))
probe("rename within the workspace", lambda: os.rename(at("hard-mine"), at("renamed")), "done", "done")

# Other names for the same places.
here = os.open(WORKSPACE, os.O_RDONLY)
probe("write by /proc/self/root", lambda: write(f"/proc/self/root{OUTSIDE}/root"), "ENOENT", "done")
probe(
    "write by /proc/1/root",
    lambda: write(f"/proc/1/root{OUTSIDE}/root-of-1"),
    "ENOENT",
    root="done",
    absent=FIRST_HAS_MORE,
)
probe("write by /proc/self/cwd", lambda: write(f"/proc/self/cwd/../../../../../../..{OUTSIDE}/cwd"), "ENOENT", "done")
probe(
    "write by /proc/self/fd", lambda: write(f"/proc/self/fd/{here}/../../../../../../..{OUTSIDE}/fd"), "ENOENT", "done"
)
probe("read by /proc/self/fd", lambda: read(f"/proc/self/fd/{here}/mine"), "done", "done")


def open_by_inherited():
    for fd in range(256):
        if fd == here:
            continue
        try:
            os.close(os.open("..", os.O_RDONLY, dir_fd=fd))
        except OSError:
            continue
        raise AssertionError(f"descriptor {fd} is a folder")


def leave(way):
    way()
    for _ in range(20):
        os.chdir("..")
    write(f".{OUTSIDE}/left")


if INSIDE:
    probe("openat by inherited descriptors", open_by_inherited, "done")
probe("openat by an own descriptor", lambda: os.close(os.open("..", os.O_RDONLY, dir_fd=here)), "done", "done")
probe("leave by chdir", lambda: leave(lambda: os.chdir(WORKSPACE)), "ENOENT", "done")
probe("leave by fchdir", lambda: leave(lambda: os.fchdir(here)), "ENOENT", "done")
os.close(here)


def race():
    """Switch a folder to a link and back in one process while another writes through it."""
    os.mkdir(at("real"))
    os.symlink(OUTSIDE, at("fake"))
    swapper = os.fork()
    while swapper == 0:
        for name in ("real", "fake"):
            os.rename(at(name), at("swapped"))
            os.rename(at("swapped"), at(name))
    begun, number = time.monotonic(), 0
    try:
        while time.monotonic() - begun < 1:
            number += 1
            try:
                write(at(f"swapped/race-{number}"))
            except OSError:
                continue
            if os.path.exists(f"{OUTSIDE}/race-{number}"):
                return
    finally:
        os.kill(swapper, signal.SIGKILL)
    raise FileNotFoundError(errno.ENOENT, "nothing came through")


probe("win a race of links", race, "ENOENT", "done")
