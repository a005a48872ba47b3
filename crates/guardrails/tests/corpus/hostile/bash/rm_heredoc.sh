# expect: destructive
bash <<'END'
cd /
rm -rf /usr
END
