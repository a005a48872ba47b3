# expect: destructive
mkfs.ext4 -F /dev/sda1
