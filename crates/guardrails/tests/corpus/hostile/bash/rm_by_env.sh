# expect: destructive
env FOO=1 nice -n 5 rm -rf /home
