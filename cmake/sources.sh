#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Prints every C and C++ file of the project.
set -euo pipefail
cd "$(dirname "$0")/.."
find bench control dataplane docs include tests -type f \( -name '*.[ch]' -o -name '*.cpp' \) |
	sort
