# expect: destructive
cd /tmp && rm -fr /* 2>/dev/null
