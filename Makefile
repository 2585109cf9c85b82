# SPDX-License-Identifier: MIT
# A thin front for CMake. build/ is the release build with gcc; CMakePresets.json has
# the others. Every command first installs the Debian packages that it misses, which
# RINGPLANE_DEPS=no leaves alone.

JOBS ?= $(shell nproc)

# Without the tests, unless `make test` has been there: those need more packages.
all:
	@cmake/deps.sh build
	@[ -f build/build.ninja ] || cmake --preset release-gcc -B build -DRINGPLANE_TESTS=OFF
	@cmake --build build --parallel $(JOBS)

test:
	@cmake/deps.sh test
	@cmake --preset release-gcc -B build -DRINGPLANE_TESTS=ON
	@cmake --build build --parallel $(JOBS)
	@cmake/test.sh build $(CTEST_FLAGS)

demo: all
	@build/docs/examples/two-chips/two-chips

deps:
	@cmake/deps.sh ci

check-format: deps
	@cmake/sources.sh | xargs clang-format --dry-run -Werror

format: deps
	@cmake/sources.sh | xargs clang-format -i

# What clang-tidy and cppcheck read, with assertions on; nothing is built.
lint: deps
	@cmake --preset lint >/dev/null

tidy: lint
	@find dataplane control bench -name '*.c' | sort | \
		xargs -P $(JOBS) -n 1 clang-tidy -p build-lint --quiet

cppcheck: lint
	@cppcheck --project=build-lint/compile_commands.json -j $(JOBS) --quiet \
		--enable=warning,performance,portability --error-exitcode=1 --inline-suppr \
		--suppressions-list=cmake/cppcheck.suppress

model: deps
	@tests/model/run.sh

clean:
	rm -rf build build-*

.PHONY: all test demo deps check-format format lint tidy cppcheck model clean
