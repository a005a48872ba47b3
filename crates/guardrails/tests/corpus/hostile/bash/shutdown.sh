# expect: destructive
nohup shutdown -h now &
