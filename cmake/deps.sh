#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Installs the Debian packages that are missing; silent where none is.
#
# deps.sh build    what the library, the examples and rpbench are built with
# deps.sh test     and the tests
# deps.sh docs     what makes the reference
# deps.sh bench    what rpbench peers compares with, and what draws the plots of a report
# deps.sh ci       what builds, tests, documents and checks the sources
# deps.sh extra    and what some of the tests do without: those of bench, a browser that
#                  opens the report, what reads the graphs of captures and the
#                  layout of structs
#
# RINGPLANE_DEPS=no leaves the machine alone.
set -euo pipefail

# command=package, or a package that has no command.
packages=(
	gcc=gcc cmake=cmake ninja=ninja-build pkg-config=pkg-config
	libc6-dev liburing-dev libdpdk-dev libhugetlbfs-dev systemtap-sdt-dev
	libjansson-dev libpopt-dev libgsl-dev)
test_packages=(
	g++=g++ readelf=binutils strace=strace libcmocka-dev)
docs_packages=(doxygen=doxygen)
bench_packages=(
	gnuplot=gnuplot-nox libucx-dev libzmq3-dev libopenmpi-dev mpirun=openmpi-bin)
ci_packages=(
	git=git clang=clang clang-format=clang-format clang-tidy=clang-tidy
	libclang-rt-dev cppcheck=cppcheck spin=spin setarch=util-linux)
extra_packages=(chromium=chromium dot=graphviz gdb=gdb)
case ${1:-build} in
build) ;;
test) packages+=("${test_packages[@]}") ;;
docs) packages=("${docs_packages[@]}") ;;
bench) packages=("${bench_packages[@]}") ;;
ci) packages+=("${test_packages[@]}" "${docs_packages[@]}" "${ci_packages[@]}") ;;
extra) packages=("${bench_packages[@]}" "${extra_packages[@]}") ;;
*)
	echo "usage: deps.sh [build|test|docs|bench|ci|extra]" >&2
	exit 2
	;;
esac

[ "${RINGPLANE_DEPS:-yes}" != no ] || exit 0

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
	cat <<-'END'
	ringplane: not a Debian system, so nothing is installed here. Needed are gcc or
	clang, CMake 3.25, Ninja, pkg-config, and the development files of liburing,
	libhugetlbfs, DPDK (headers only), cmocka, jansson, popt and gsl.
	END
	exit 0
fi

missing=()
for entry in "${packages[@]}"; do
	package=${entry#*=}
	case $entry in
	*=*) command -v "${entry%%=*}" >/dev/null || missing+=("$package") ;;
	*)
		# Of an architecture that is not there the query fails: missing as well.
		case $(dpkg-query -W -f '${db:Status-Status} ' "$package" 2>/dev/null || true) in
		*"installed "*) ;;
		*) missing+=("$package") ;;
		esac
		;;
	esac
done
[ ${#missing[@]} -gt 0 ] || exit 0

as_root=()
if [ "$(id -u)" -ne 0 ]; then
	if ! command -v sudo >/dev/null; then
		echo "ringplane: these Debian packages are missing: ${missing[*]}" >&2
		echo "ringplane: neither root nor sudo; have somebody run: apt-get install ${missing[*]}" >&2
		exit 1
	fi
	as_root=(sudo)
	echo "ringplane: installing with sudo: ${missing[*]}"
else
	echo "ringplane: installing: ${missing[*]}"
fi

apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300)
"${apt[@]}" update ||
	echo "ringplane: the package lists could not be renewed; going on with those there are" >&2
"${apt[@]}" install -y --no-install-recommends "${missing[@]}"
