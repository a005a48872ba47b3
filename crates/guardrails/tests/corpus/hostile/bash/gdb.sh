# expect: break-out
gdb -p 1 -batch -ex 'call system("id")'
