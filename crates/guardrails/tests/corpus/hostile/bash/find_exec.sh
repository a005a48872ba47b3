# expect: destructive
find /home -name '*.doc' -exec rm -f {} \;
