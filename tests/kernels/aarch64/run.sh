#!/bin/sh
# Compile the tile kernels for AArch64 and run the check programs beside this script under
# QEMU: tests/kernels/aarch64/run.sh [family ...], by default all families. CC, ISA, OPTIMISE
# and EMULATOR may be others; an empty EMULATOR runs the programs as they are. BUILD is the
# folder for objects.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
tile=$here/../../../uniflexflow/_core/tile
build=${BUILD:-$here/../../../build/aarch64}
CC=${CC:-aarch64-linux-gnu-gcc}
EMULATOR=${EMULATOR-qemu-aarch64}
ISA=${ISA:-neon}
OPTIMISE=${OPTIMISE:--O3}

for tool in "$CC" $EMULATOR; do
    if ! command -v "${tool%% *}" >/dev/null; then
        echo "$tool is missing: apt-get install gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user" >&2
        exit 2
    fi
done

flags="-std=gnu11 -Wall -fno-math-errno -DUFF_ISA=$ISA -I$tile -I$tile/.. -Wno-psabi"
# as setup.py compiles kernels; what they are compared with is not made of vectors
kernel_flags="$OPTIMISE -ffp-contract=fast -fno-trapping-math"
check_flags="-O1 -ffp-contract=off"
mkdir -p "$build"
newest_header=$(ls -t "$tile"/*.h "$here"/*.h "$here/run.sh" | head -n 1)

compile() { # source, object, flags
    if [ ! "$2" -nt "$1" ] || [ ! "$2" -nt "$newest_header" ]; then
        $CC $flags $3 -c "$1" -o "$2"
    fi
}

[ $# -gt 0 ] || set -- $(sed -n 's/^ *X(\([a-z]*\), arg).*/\1/p' "$tile/families.h")
failed=0
for family in "$@"; do
    if [ ! -f "$here/check_$family.c" ]; then
        echo "$family: check_$family.c is missing" >&2
        failed=1
        continue
    fi
    compile "$tile/$family.c" "$build/$family.o" "$kernel_flags"
    compile "$here/check_$family.c" "$build/check_$family.o" "$check_flags"
    $CC -static -o "$build/check_$family" "$build/check_$family.o" "$build/$family.o" -lm
    $EMULATOR "$build/check_$family" || failed=1
done
exit $failed
