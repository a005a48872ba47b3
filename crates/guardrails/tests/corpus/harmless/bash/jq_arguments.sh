name="Ann"
jq --arg name "$name" '.users[] | select(.name == $name)' users.json
