# expect: break-out
/usr/bin/sudo -u root id
