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

# MODEL, TOKENIZER, PROMPT and DEMO_FLAGS say what docs/examples/decode runs; without
# a model it makes one up. What is given on the command line is in the environment.
demo: all
	@build/docs/examples/decode/decode \
		$(if $(MODEL),--model "$$MODEL",$(if $(TOKENIZER),,--temperature 0.8)) \
		$(if $(TOKENIZER),--tokenizer "$$TOKENIZER") \
		$(if $(PROMPT),--prompt "$$PROMPT") $(DEMO_FLAGS)

# The reference of the public headers, into build/docs/reference/.
docs:
	@cmake/deps.sh docs
	@mkdir -p build/docs
	@RINGPLANE_VERSION=$$(sed -n 's/^project(.* VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt) \
		RINGPLANE_DOCS=build/docs doxygen docs/Doxyfile
	@echo build/docs/reference/index.html

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

# The library with each of its switches off.
switches: deps
	@tests/switches/run.sh . $(JOBS)

clean:
	rm -rf build build-*

.PHONY: all test demo docs deps check-format format lint tidy cppcheck model switches clean
