# expect: system-file
cp /root/.ssh/id_ed25519 key
