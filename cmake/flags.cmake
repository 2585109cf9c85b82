# SPDX-License-Identifier: MIT
# What every target of the project is compiled with.
add_library(ringplane_flags INTERFACE)
target_compile_options(ringplane_flags INTERFACE
  -Wall -Wextra -Wshadow -Wpointer-arith -Wundef
  $<$<COMPILE_LANGUAGE:C>:-Wstrict-prototypes>
  $<$<COMPILE_LANGUAGE:C>:-Wmissing-prototypes>
  $<$<BOOL:${RINGPLANE_WERROR}>:-Werror>
  # Names and lines in a back trace of a release.
  $<$<CONFIG:Release>:-g1>)
# Empty, as a source that defines it for itself has it.
target_compile_definitions(ringplane_flags INTERFACE _GNU_SOURCE=
  SIMPLER_HOST_STRACE=$<BOOL:${SIMPLER_HOST_STRACE}>
  SIMPLER_DFX=$<BOOL:${SIMPLER_DFX}>)

if(RINGPLANE_SANITIZE)
  target_compile_options(ringplane_flags INTERFACE
    -fsanitize=${RINGPLANE_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(ringplane_flags INTERFACE -fsanitize=${RINGPLANE_SANITIZE})
  # gcc tells that TSan does not see fences. What a fence orders is not left to it:
  # the models check the sleepers, and the rest is ordered loads and stores.
  if(RINGPLANE_SANITIZE STREQUAL "thread" AND CMAKE_C_COMPILER_ID STREQUAL "GNU")
    target_compile_options(ringplane_flags INTERFACE -Wno-tsan)
  endif()
endif()

# In a release, where the compiler and the linker can.
set(RINGPLANE_LTO_USED OFF)
if(RINGPLANE_LTO AND CMAKE_BUILD_TYPE STREQUAL "Release" AND NOT RINGPLANE_SANITIZE)
  include(CheckIPOSupported)
  check_ipo_supported(RESULT RINGPLANE_LTO_USED OUTPUT lto_output LANGUAGES C)
  if(NOT RINGPLANE_LTO_USED)
    message(STATUS "No optimisation across files: ${CMAKE_C_COMPILER} or its linker cannot")
  endif()
endif()
