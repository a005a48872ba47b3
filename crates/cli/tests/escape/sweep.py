"""Every system call by its number, with arguments that mean nothing: what is not in ALLOWED is refused, and what is in
ALLOWED is known."""

# These do not come back, or come back twice; that they work, everything else shows.
ONE_WAY = ("exit", "exit_group", "rt_sigreturn", "fork", "vfork", "clone", "pause", "rt_sigsuspend", "sync")
UNASKED = {SYSCALLS[name] for name in ONE_WAY if name in SYSCALLS}
# Knows no operation -1, and says so with ENOSYS.
UNASKED |= {SYSCALLS["futex"]}
if X86_64:
    # uretprobe and uprobe: the kernel lets them past every filter, and they work only where it has put them itself.
    UNASKED |= {335, 336}
SECONDS = 2
names = {number: name for name, number in ALLOWED.items()}

for number in range(LAST + 1):
    if number in UNASKED:
        continue
    got = outcome(lambda: call(number, -1, -1, -1, -1, -1, -1))
    if number in names:
        check(f"{names[number]} ({number}) is allowed", got != "ENOSYS", got)
    else:
        judge(f"system call {number}", got, ("ENOSYS", "EPERM"))
