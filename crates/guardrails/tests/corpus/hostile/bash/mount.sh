# expect: break-out
mkdir -p mnt && mount -t proc proc mnt
