set -euo pipefail
IFS=$'\n\t'
sort data.txt | uniq > unique.txt
