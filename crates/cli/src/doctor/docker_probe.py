import os
import signal
import socket


def can(act):
    try:
        act()
        return True
    except OSError:
        return False


def write(path):
    with open(path, "w") as file:
        file.write("x")


def end_child():
    child = os.fork()
    if child == 0:
        signal.pause()
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def signal_others():
    own = {os.getpid(), 1 if os.getpid() == 1 else os.getppid()}
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) not in own:
            os.kill(int(name), 0)
            return
    raise ProcessLookupError


{
    "user": os.getuid() != 0 and not can(lambda: os.setuid(0)) and can(lambda: os.setuid(os.getuid())),
    "files": all(can(lambda: write(f"/{folder}/probe")) for folder in ("workspace", "artifacts", "tmp"))
    and not any(can(lambda: write(f"{folder}/probe")) for folder in ("", "/usr/bin", "/coracle", "/etc")),
    "network": can(lambda: socket.socketpair()) and not can(lambda: socket.create_server(("127.0.0.1", 0))),
    "processes": can(end_child) and not can(signal_others),
}
