# expect: destructive
sh -c "bash -c 'rm -rf /etc'"
