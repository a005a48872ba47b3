# expect: break-out
chmod 4755 /tmp/shell
