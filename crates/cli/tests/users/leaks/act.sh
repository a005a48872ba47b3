# Does with records what scripts do with data.
all=$(tool people records --batch "$BATCH" --form structured)
echo "$all"
echo "$all" >&2
for number in $(seq 0 $((COUNT - 1))); do
  one=$(tool people records --batch "$BATCH" --form text --first "$number" --count 1)
  case $(((number + FIRST) % 7)) in
    0) echo "$one" ;;
    1) printf %s "$one" | base64 -w0; echo ;;
    2) printf %s "$one" | od -An -v -tx1 | tr -d ' \n'; echo ;;
    3) printf %s "$one" >"/workspace/$BATCH-$number.json"; cat "/workspace/$BATCH-$number.json" ;;
    4) printf %s "$one" >"/artifacts/$number.json" ;;
    5) "$one" ;;
    6) tool people fail --value "$one"; ls "/workspace/$one" ;;
  esac
done
tool people records --batch "$BATCH" --form error
tool people records --batch "$BATCH" --form refused
exit $((FIRST % 2))
