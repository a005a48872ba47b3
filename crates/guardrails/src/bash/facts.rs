//! What commands do.

/// Commands that run the rest of their words as a command. Their options have no values of their own, except those in
/// the second list.
pub(super) const WRAPPERS: &[(&str, &[&str])] = &[
    ("builtin", &[]),
    ("busybox", &[]),
    ("command", &[]),
    ("doas", &["-u"]),
    ("env", &["-u", "-C", "-S"]),
    ("exec", &["-a"]),
    ("ionice", &["-c", "-n", "-p"]),
    ("nice", &["-n"]),
    ("nohup", &[]),
    ("parallel", &["-j", "-I"]),
    ("setsid", &[]),
    ("stdbuf", &["-i", "-o", "-e"]),
    ("sudo", &["-u", "-g"]),
    ("time", &["-f", "-o"]),
    ("timeout", &["-s", "-k"]),
    ("watch", &["-n"]),
    ("xargs", &["-I", "-n", "-P", "-L", "-d", "-a", "-s"]),
];

/// Shells, whose code is bash or very much like it.
pub(super) const SHELLS: &[&str] = &["ash", "bash", "dash", "ksh", "rbash", "sh", "zsh"];

/// Interpreters of other languages, with the option that is followed by code.
pub(super) const INTERPRETERS: &[(&str, &str)] = &[
    ("lua", "-e"),
    ("node", "-e"),
    ("perl", "-e"),
    ("php", "-r"),
    ("python", "-c"),
    ("python2", "-c"),
    ("python3", "-c"),
    ("qjs", "-e"),
    ("ruby", "-e"),
];

/// Commands that download.
pub(super) const FETCHERS: &[&str] = &["aria2c", "curl", "fetch", "ftp", "http", "lynx", "wget"];

/// Commands that open network connections.
pub(super) const NETWORK: &[&str] =
    &["hping3", "nc", "ncat", "netcat", "nmap", "rsh", "scp", "sftp", "socat", "ssh", "tcpdump", "telnet", "tshark"];

/// Commands that need or give privileges, or reach out of the sandbox.
pub(super) const PRIVILEGED: &[&str] = &[
    "bpftool",
    "capsh",
    "chattr",
    "chroot",
    "crictl",
    "crontab",
    "ctr",
    "debugfs",
    "doas",
    "gdb",
    "insmod",
    "iptables",
    "kexec",
    "ltrace",
    "mknod",
    "modprobe",
    "newgrp",
    "nft",
    "nsenter",
    "passwd",
    "pivot_root",
    "pkexec",
    "rmmod",
    "runc",
    "setcap",
    "strace",
    "su",
    "sudo",
    "systemctl",
    "umount",
    "unshare",
    "useradd",
    "usermod",
    "visudo",
];

/// Commands that destroy disks or stop the machine.
pub(super) const DESTRUCTIVE: &[&str] = &[
    "fdisk", "halt", "killall5", "mke2fs", "mkswap", "parted", "poweroff", "reboot", "sfdisk", "sgdisk", "shutdown",
    "telinit", "wipefs",
];

/// Variables that make programs load other code.
pub(super) const LOADER_VARIABLES: &[&str] = &["LD_PRELOAD", "LD_AUDIT", "BASH_ENV", "PROMPT_COMMAND"];

/// Commands whose words are no paths of files.
pub(super) const PRINTERS: &[&str] = &["[", "echo", "export", "jq", "printf", "sed", "test", "tool", "trap"];
