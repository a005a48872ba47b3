# expect: dynamic-code
source <(cat settings.sh | sed 's/x/y/')
