"""Every system call by number, with invalid arguments: calls that are not in ALLOWED are refused, and those in ALLOWED
are known."""

# These do not return, or return twice. Other tests show that they work.
ONE_WAY = ("exit", "exit_group", "rt_sigreturn", "fork", "vfork", "clone", "pause", "rt_sigsuspend", "sync")
UNASKED = {SYSCALLS[name] for name in ONE_WAY if name in SYSCALLS}
# Returns ENOSYS for the unknown operation -1.
UNASKED |= {SYSCALLS["futex"]}
if X86_64:
    # uretprobe and uprobe: no filter applies to them, and they only work where the kernel has placed them.
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
