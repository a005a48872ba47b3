# expect: destructive
bash -c 'rm -rf /'
