#!/bin/sh
# Install a relocatable tree: scripts/install.sh PREFIX [TARGET_DIR]. Run by `make install`.
#
# Everything in the tree finds the rest relative to itself, so it may be moved or copied as a whole. Files are
# replaced, not overwritten: programs that run from the tree meanwhile keep what they have open.
set -eu

prefix=${1:?usage: scripts/install.sh PREFIX [TARGET_DIR]}
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd -P)
target=${2:-${CARGO_TARGET_DIR:-$root/target}}/release
cd "$root"
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)

for file in libmpi_abi.so libfarpost_clock.so libfarpost_ranks.so mpiexec farpost; do
    [ -e "$target/$file" ] || { echo "install: $target/$file is missing: run make build first" >&2; exit 1; }
done
if command -v readelf >/dev/null 2>&1; then
    soname=$(readelf -d "$target/libmpi_abi.so" | sed -n 's/.*(SONAME).*\[\(.*\)\]/\1/p')
    [ "$soname" = libmpi_abi.so.1 ] || { echo "install: SONAME of $target/libmpi_abi.so is '$soname', must be libmpi_abi.so.1" >&2; exit 1; }
fi

mkdir -p "$prefix/bin" "$prefix/include" "$prefix/lib/pkgconfig"
work=$(mktemp -d "$prefix/.install.XXXXXX")
trap 'rm -rf "$work"' EXIT INT TERM

# put SOURCE DESTINATION MODE
put() {
    cp "$1" "$work/file"
    # Without debugging information, which is most of a library and names the directory it was built in.
    case $2 in
    lib/*.so.* | bin/farpost | bin/mpiexec) strip --strip-debug "$work/file" 2>/dev/null || : ;;
    esac
    chmod "$3" "$work/file"
    mv -f "$work/file" "$prefix/$2"
}
# wrapper NAME LANGUAGE VARIABLE CANDIDATES
wrapper() {
    sed -e "s|@NAME@|$1|g" -e "s|@LANGUAGE@|$2|g" -e "s|@VAR@|$3|g" -e "s|@CANDIDATES@|$4|g" -e "s|@VERSION@|$version|g" \
        wrappers/mpicc.in >"$work/wrapper"
    put "$work/wrapper" "bin/$1" 755
}
# alias NAME WHY
alias_pc() {
    sed -e "s|@NAME@|$1|g" -e "s|@WHY@|$2|g" -e "s|@MPI_VERSION@|5.0|g" wrappers/alias.pc.in >"$work/pc"
    put "$work/pc" "lib/pkgconfig/$1.pc" 644
}

put "$target/farpost" bin/farpost 755
put "$target/mpiexec" bin/mpiexec 755
ln -sf mpiexec "$prefix/bin/mpirun"
wrapper mpicc C CC "cc gcc clang"
wrapper mpicxx C++ CXX "c++ g++ clang++"
for name in mpic++ mpiCC; do
    # Where names do not differ by case, mpiCC is mpicc, and stays the C compiler.
    [ -e "$prefix/bin/$name" ] && [ ! -L "$prefix/bin/$name" ] || ln -sf mpicxx "$prefix/bin/$name"
done

put "$target/libmpi_abi.so" lib/libmpi_abi.so.1 755
ln -sf libmpi_abi.so.1 "$prefix/lib/libmpi_abi.so"
put "$target/libfarpost_clock.so" lib/libfarpost_clock.so.1 755
put "$target/libfarpost_ranks.so" lib/libfarpost_ranks.so.1 755

"$target/farpost-apigen" header mpi "$work/mpi.h"
put "$work/mpi.h" include/mpi.h 644
mkdir -p "$prefix/include/farpost"
for name in $("$target/farpost-apigen" interfaces); do
    "$target/farpost-apigen" header "$name" "$work/interface.h"
    put "$work/interface.h" "include/farpost/$name.h" 644
    "$target/farpost-apigen" pkgconfig "$name" "$work/pc"
    put "$work/pc" "lib/pkgconfig/farpost-$name.pc" 644
done

sed -e "s|@VERSION@|$version|g" wrappers/farpost.pc.in >"$work/pc"
put "$work/pc" lib/pkgconfig/farpost.pc 644
alias_pc mpi_abi "the standard C ABI"
alias_pc mpi "the name some build systems ask for"
for name in mpi-c mpi-cxx; do alias_pc $name "the name CMake and Debian's alternatives use"; done

echo "installed Farpost $version in $prefix"
