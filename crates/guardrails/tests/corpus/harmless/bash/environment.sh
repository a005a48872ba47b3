export PATH="$HOME/bin:$PATH"
LC_ALL=C sort words.txt | head -n 3
env | grep '^CORACLE' | sort
