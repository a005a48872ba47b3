# Each line of output names a failed probe; the last one is the number of probes. Only inside.
ran=0
try() {
  name=$1
  shift
  ran=$((ran + 1))
  timeout 10 "$@" >/tmp/out 2>&1
}
works() {
  try "$@" || echo "does not work: $name: $(head -c 300 /tmp/out)"
}
refused() {
  try "$@"
  case $? in
    0) echo "not refused: $name: $(head -c 300 /tmp/out)" ;;
    124) echo "hangs: $name" ;;
  esac
}
has() { command -v "$1" >/dev/null; }

works 'a program' true
refused 'a program that fails' false
works 'write in the workspace' bash -c 'echo x > /workspace/shell'
for folder in / /usr /etc /coracle /proc /dev /sys /root /home /var; do
  refused "write in $folder" bash -c "echo x > $folder/shell"
done
works 'read in /etc' cat /etc/passwd
refused 'read /etc/shadow' cat /etc/shadow
refused 'read a host file' cat "$CANARY"
refused 'a socket by /dev/tcp' bash -c "exec 9<>/dev/tcp/127.0.0.1/$PORT"
refused 'a socket by /dev/udp' bash -c "exec 9<>/dev/udp/127.0.0.1/$PORT"
works 'a pipe' bash -c 'exec 9< <(echo x); read -r word <&9; [ "$word" = x ]'
refused 'raise a limit' bash -c 'ulimit -H -n 100000'
works 'lower a limit' bash -c 'ulimit -n 100'
works 'whoami' bash -c '[ "$(id -u):$(id -g):$(id -un)" = 1000:1000:coderunner ]'
if has unshare; then
  for flag in --user --mount --pid --net --uts --ipc --cgroup --map-root-user; do
    refused "unshare $flag" unshare $flag true
  done
fi
if has nsenter; then refused nsenter nsenter --target 1 --mount true; fi
if has mount; then
  refused 'mount a tmpfs' mount -t tmpfs none /tmp
  refused 'make the root writable' mount -o remount,rw /
  refused 'bind' mount --bind /usr /tmp
fi
if has umount; then refused 'umount' umount -l /proc; fi
if has chroot; then refused chroot chroot / true; fi
if has mknod; then refused 'a device node' mknod /tmp/node c 1 3; works 'a fifo' mkfifo /tmp/fifo; fi
for program in su passwd chsh newgrp sudo pkexec mount; do
  path=$(command -v $program) || continue
  ran=$((ran + 1))
  case $program in
    su | sudo) uid=$(timeout 10 "$path" -c 'id -u' </dev/null 2>/dev/null) ;;
    *) timeout 10 "$path" </dev/null >/dev/null 2>&1; uid= ;;
  esac
  [ "$uid" = 0 ] && echo "root by $program"
done
cp "$(command -v id)" /workspace/own-id && works 'run a copied program' /workspace/own-id -u
refused 'make it setuid' chmod u+s /workspace/own-id
refused 'make it setgid' chmod g+s /workspace/own-id
refused 'install it setuid' install -m 4755 /usr/bin/env /workspace/installed
works 'install it plain' install -m 755 /usr/bin/env /workspace/plain
refused 'kill a host process' kill -0 "$HOST_PID"
works 'kill an own process' bash -c 'sleep 100 & kill $!'
[ "$(ls /proc/self/fd | tr '\n' ' ')" = '0 1 2 3 ' ] || echo "descriptors: $(ls -l /proc/self/fd)"
known='PATH HOME USER LOGNAME SHELL LANG TMPDIR TERM MPLBACKEND OMP_NUM_THREADS OPENBLAS_NUM_THREADS MKL_NUM_THREADS'
known="$known PWD OLDPWD SHLVL _ BASH_ENV CORACLE_DOOR"
for variable in $(compgen -e); do
  case " $known " in *" $variable "*) ;; *) echo "environment: $variable" ;; esac
done
echo "ran $ran"
