# expect: break-out
chroot ./root /bin/sh
