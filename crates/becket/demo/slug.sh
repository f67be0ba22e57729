#!/bin/sh
# slug.sh TEXT: prints TEXT as a slug for a file name.
slug() {
    printf '%s' "$1" | tr 'A-Z' 'a-z' | tr -c 'a-z' '_'
}

slug "$1"
echo
