#!/bin/sh
# Runs all checks of slug.sh; exits with the number of failures.
failed=0
check() {
    got=$(sh ./slug.sh "$1")
    if [ "$got" = "$2" ]; then
        echo "ok    $1 -> $got"
    else
        echo "FAIL  $1 -> $got, expected $2"
        failed=$((failed + 1))
    fi
}
check "Hello World" "hello-world"
check "  Trim me  " "trim-me"
check "a  --  b" "a-b"
check "Release 2 Notes" "release-2-notes"
[ "$failed" -eq 0 ] && echo "all checks pass"
exit "$failed"
