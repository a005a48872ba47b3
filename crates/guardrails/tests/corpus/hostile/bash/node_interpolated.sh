# expect: dynamic-code
node -e "console.log($VALUE)"
