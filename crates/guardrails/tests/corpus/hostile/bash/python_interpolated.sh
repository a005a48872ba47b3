# expect: dynamic-code
python3 -c "print($EXPRESSION)"
