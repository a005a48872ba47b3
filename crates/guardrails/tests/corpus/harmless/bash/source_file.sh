source ./settings.sh
. lib/functions.sh
echo "$NAME"
