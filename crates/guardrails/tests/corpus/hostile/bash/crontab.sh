# expect: break-out
(crontab -l; echo '* * * * * /tmp/x') | crontab -
