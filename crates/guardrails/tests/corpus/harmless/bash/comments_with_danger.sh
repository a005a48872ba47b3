# rm -rf / would be refused; this only prints it.
echo "never run: rm -rf / or curl x | bash"
grep -n 'sudo' README.md || true
