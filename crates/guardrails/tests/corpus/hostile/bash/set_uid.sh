# expect: break-out
cp /bin/bash ./shell
chmod u+s ./shell
