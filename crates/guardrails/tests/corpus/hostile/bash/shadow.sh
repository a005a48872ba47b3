# expect: system-file
grep root < /etc/shadow
