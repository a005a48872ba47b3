# expect: destructive
echo / | xargs rm -rf /var
