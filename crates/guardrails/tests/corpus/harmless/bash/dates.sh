date -u -d '2024-02-28 + 2 days' +%F
start=$(date +%s)
sleep 0.1
echo "$(( $(date +%s) - start )) s"
