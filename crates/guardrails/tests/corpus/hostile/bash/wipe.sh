# expect: destructive
wipefs --all /dev/vda
