# expect: break-out
from os import chroot

chroot("/workspace/root")
