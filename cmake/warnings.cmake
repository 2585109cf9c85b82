# SPDX-License-Identifier: MIT
# What every target of the project is compiled with.
add_library(ringplane_flags INTERFACE)
target_compile_options(ringplane_flags INTERFACE
  -Wall -Wextra -Werror -Wshadow -Wpointer-arith -Wundef
  $<$<COMPILE_LANGUAGE:C>:-Wstrict-prototypes -Wmissing-prototypes>)
target_compile_definitions(ringplane_flags INTERFACE _GNU_SOURCE)

if(RINGPLANE_SANITIZE)
  target_compile_options(ringplane_flags INTERFACE
    -fsanitize=${RINGPLANE_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(ringplane_flags INTERFACE -fsanitize=${RINGPLANE_SANITIZE})
endif()
