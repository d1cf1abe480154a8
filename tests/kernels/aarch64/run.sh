#!/bin/sh
# Compile every tile kernel for AArch64 and run the check programs beside this script under
# QEMU: tests/kernels/aarch64/run.sh [build folder]. CC and EMULATOR may name others.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
tile=$here/../../../uniflexflow/_core/tile
build=${1:-$here/../../../build/aarch64}
CC=${CC:-aarch64-linux-gnu-gcc}
EMULATOR=${EMULATOR-qemu-aarch64}
ISA=${ISA:-neon}

for tool in "$CC" $EMULATOR; do
    if ! command -v "${tool%% *}" >/dev/null; then
        echo "$tool is missing: apt-get install gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user" >&2
        exit 2
    fi
done

flags="-O3 -std=gnu11 -Wall -ffp-contract=fast -fno-math-errno -fno-trapping-math -DUFF_ISA=$ISA"
mkdir -p "$build"
newest_header=$(ls -t "$tile"/*.h "$here"/*.h "$here/run.sh" | head -n 1)
for source in "$tile"/*.c "$here"/check_*.c; do
    object=$build/$(basename "$source" .c).o
    if [ ! "$object" -nt "$source" ] || [ ! "$object" -nt "$newest_header" ]; then
        "$CC" $flags -I"$tile" -I"$tile/.." -c "$source" -o "$object"
    fi
done

failed=0
for source in "$here"/check_*.c; do
    name=$(basename "$source" .c)
    "$CC" -static -o "$build/$name" "$build/$name.o" "$build/${name#check_}.o" -lm
    $EMULATOR "$build/$name" || failed=1
done
exit $failed
