sed -i.bak -e 's/colour/color/g' -e '/^#/d' notes.txt && diff notes.txt.bak notes.txt
