chmod +x run.sh
chmod 755 bin && chmod -R u+w output
