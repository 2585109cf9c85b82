# SPDX-License-Identifier: MIT
# ringplane_add_program(name SOURCES file... [OUTPUT_DIRECTORY dir]
#                       [DEFINITIONS def...] [LIBRARIES library...])
#
# Builds an artifact directory for rp_program_load() from C sources: one of them has
# RP_PROGRAM_OBJECT, and all functions of the program are RP_API. The directory is
# <name>.program below the current build directory, or OUTPUT_DIRECTORY; the target's
# property RINGPLANE_PROGRAM tells. The object is not linked with ringplane: it uses that
# of the process that loads it. A process with the static library has to export its
# symbols (ENABLE_EXPORTS).
# RINGPLANE_TEST_LAUNCHER is ringplane's own, for sanitizers; others leave it unset.
function(ringplane_add_program name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "OUTPUT_DIRECTORY"
    "SOURCES;DEFINITIONS;LIBRARIES")
  if(NOT arg_SOURCES OR arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "ringplane_add_program(${name}): no SOURCES, or "
      "'${arg_UNPARSED_ARGUMENTS}' is too much")
  endif()
  if(NOT arg_OUTPUT_DIRECTORY)
    set(arg_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/${name}.program)
  endif()
  add_library(${name} MODULE ${arg_SOURCES})
  set_target_properties(${name} PROPERTIES PREFIX "" SUFFIX ".so"
    C_VISIBILITY_PRESET hidden INTERPROCEDURAL_OPTIMIZATION OFF
    RINGPLANE_PROGRAM ${arg_OUTPUT_DIRECTORY})
  target_include_directories(${name} PRIVATE
    $<TARGET_PROPERTY:ringplane::ringplane,INTERFACE_INCLUDE_DIRECTORIES>)
  target_compile_definitions(${name} PRIVATE ${arg_DEFINITIONS})
  target_link_libraries(${name} PRIVATE ${arg_LIBRARIES})
  add_dependencies(${name} ringplane::rpprogram)
  add_custom_command(TARGET ${name} POST_BUILD VERBATIM
    COMMAND ${RINGPLANE_TEST_LAUNCHER} $<TARGET_FILE:ringplane::rpprogram>
      save $<TARGET_FILE:${name}> ${arg_OUTPUT_DIRECTORY})
endfunction()
