#!/bin/sh
# Record outputs of the real runtimes: the draws in this folder, and the vectors of tests/workloads/sieve.
# The seeds come from answers.json and record.py; needs nothing but the tools named below, and no network.
# PYTHON is a Python with numpy. V8's generator differs between versions of Node.js: NODE (12 to 23), NODE11 (11),
# NODE24 (24, 25) and NODE26 name those to record; vectors of versions that are not named are left as they are.
set -eu
cd "$(dirname "$0")"
python=${PYTHON:-python3}

need() {
    command -v "$1" >/dev/null || { echo "record.sh: $1 is missing; install it with: apt-get install $2" >&2; exit 1; }
}
need php php-cli
need javac default-jdk-headless
need gcc gcc
need g++ g++
need ruby ruby
need go golang-go
need mcs mono-mcs
need mono mono-runtime
need lua5.4 lua5.4
need "$python" python3
[ -e /usr/include/pcg_random.hpp ] || need pcg_random.hpp libpcg-cpp-dev
[ -e /usr/include/Random123/philox.h ] || need Random123 librandom123-dev

build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT
javac --add-modules jdk.random --add-exports jdk.random/jdk.random=ALL-UNNAMED -d "$build" Record.java
gcc -O2 -Wall -Werror -o "$build/record" record.c
gcc -O2 -Wall -Werror -o "$build/record_glibc" record_glibc.c
g++ -std=c++17 -O2 -Wall -o "$build/record_cpp" record.cpp
GO111MODULE=off GOCACHE="$build/go" go build -o "$build/record_go" record.go
mcs -out:"$build/record.exe" record.cs
"$python" record.py "$build"
