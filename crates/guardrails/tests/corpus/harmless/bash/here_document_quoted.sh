cat <<'END' > template.txt
Dear $NAME,
your balance is $(BALANCE).
END
wc -c template.txt
