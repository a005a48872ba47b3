while getopts "n:v" option; do
  case $option in
    n) count=$OPTARG ;;
    v) verbose=1 ;;
    *) exit 2 ;;
  esac
done
echo "${count:-10} ${verbose:-0}"
