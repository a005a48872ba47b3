# expect: destructive
\r\m -rf /etc
