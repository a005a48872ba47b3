# expect: system-file
ls -l /var/run/docker.sock
