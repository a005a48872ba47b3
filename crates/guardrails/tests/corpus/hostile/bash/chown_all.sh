# expect: destructive
chown -R nobody /usr
