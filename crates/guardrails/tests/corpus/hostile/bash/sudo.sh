# expect: break-out
sudo cat /workspace/notes.txt
