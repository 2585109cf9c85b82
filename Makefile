# SPDX-License-Identifier: MIT
# A thin front for CMake. build/ is the release build with gcc; CMakePresets.json has
# the others. Every command first installs the Debian packages that it misses, which
# RINGPLANE_DEPS=no leaves alone.

# Where the C and C++ of the project is.
CODE := include dataplane control bench tests docs/examples

.PHONY: all test demo deps check-format format tidy cppcheck model lint clean

# Without the tests, unless `make test` has been there: those need more packages.
all: build/CMakeCache.txt
	@cmake/deps.sh build
	cmake --build build

build/CMakeCache.txt:
	@cmake/deps.sh build
	cmake -S . -B build -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_C_COMPILER=gcc \
		-DCMAKE_CXX_COMPILER=g++ -DRINGPLANE_TESTS=OFF

test: build/CMakeCache.txt
	@cmake/deps.sh test
	cmake -S . -B build -DRINGPLANE_TESTS=ON
	cmake --build build
	ctest --test-dir build --output-on-failure --no-tests=error

demo: all
	build/docs/examples/two-chips/two-chips

deps:
	@cmake/deps.sh ci

check-format:
	@cmake/deps.sh ci
	find $(CODE) -name '*.[ch]' -o -name '*.cpp' | sort | \
		xargs clang-format --dry-run -Werror

format:
	@cmake/deps.sh ci
	find $(CODE) -name '*.[ch]' -o -name '*.cpp' | sort | xargs clang-format -i

lint:
	@cmake/deps.sh ci
	cmake --preset lint

tidy: lint
	find dataplane control bench -name '*.c' | sort | \
		xargs -P 2 -n 1 clang-tidy --quiet -p build-lint

cppcheck:
	@cmake/deps.sh ci
	cppcheck --enable=warning,performance,portability --inline-suppr --error-exitcode=1 \
		--std=c11 --quiet -j 2 -I include -I dataplane -I control -I bench \
		dataplane control bench

model:
	@cmake/deps.sh ci
	tests/model/run.sh

clean:
	rm -rf build build-*
