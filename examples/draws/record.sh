#!/bin/sh
# Record outputs of the real runtimes: the draws in this folder, and the vectors of tests/workloads/sieve.
# The seeds come from answers.json and record.py; needs nothing but the tools named below, and no network.
set -eu
cd "$(dirname "$0")"

need() {
    command -v "$1" >/dev/null || { echo "record.sh: $1 is missing; install it with: apt-get install $2" >&2; exit 1; }
}
need php php-cli
need javac default-jdk-headless
need gcc gcc
need python3 python3

build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT
javac -d "$build" Record.java
gcc -O2 -Wall -Werror -o "$build/record" record.c
python3 record.py "$build"
