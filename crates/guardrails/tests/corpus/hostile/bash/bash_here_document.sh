# expect: dynamic-code
bash <<END
echo $(cat command.txt)
END
