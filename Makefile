# SPDX-License-Identifier: MIT
# A thin front for CMake. build/ is the release build with gcc; CMakePresets.json has
# the others. Every command first installs the Debian packages that it misses, which
# RINGPLANE_DEPS=no leaves alone.

BUILD := build
# The newest example.
DEMO := two-chips
JOBS ?= $(shell nproc)

# Without the tests, unless `make test` has been there: those need more packages.
all:
	@cmake/deps.sh build
	@[ -f $(BUILD)/build.ninja ] || \
		cmake --preset release-gcc -B $(BUILD) -DRINGPLANE_TESTS=OFF
	@cmake --build $(BUILD) --parallel $(JOBS)

test:
	@cmake/deps.sh test
	@cmake --preset release-gcc -B $(BUILD) -DRINGPLANE_TESTS=ON
	@cmake --build $(BUILD) --parallel $(JOBS)
	@cmake/test.sh $(BUILD)

demo: all
	@$(BUILD)/docs/examples/$(DEMO)

deps:
	@cmake/deps.sh ci

check-format: deps
	@cmake/sources.sh | xargs clang-format --dry-run -Werror

format: deps
	@cmake/sources.sh | xargs clang-format -i

# What clang-tidy and cppcheck read; nothing is built.
lint: deps
	@cmake --preset lint >/dev/null

tidy: lint
	@xargs -P $(JOBS) -n 2 clang-tidy -p build-lint --quiet <build-lint/library-sources.txt

cppcheck: lint
	@cppcheck --project=build-lint/compile_commands.json -j $(JOBS) --quiet \
		--enable=warning,performance,portability --error-exitcode=1 --inline-suppr \
		--suppressions-list=cmake/cppcheck.suppress

model: deps
	@tests/model/run.sh

clean:
	rm -rf $(BUILD) build-*

.PHONY: all test demo deps check-format format lint tidy cppcheck model clean
