# SPDX-License-Identifier: MIT
# rp_add_run(name LABEL unit|process|stress|bench-smoke [TSAN] [TIMEOUT seconds]
#            COMMAND command...)
# rp_add_test(name LABEL ... [TSAN] [TIMEOUT seconds] [SOURCES file...] [ARGS arg...]
#             [LIBRARIES library...])
#
# rp_add_test builds test_<name>.c, or what SOURCES names instead, with cmocka, what
# tests share and the test build of the library, and runs it; rp_add_run only runs. One
# that ends with 77 was skipped: it has tested nothing. TIMEOUT is a watchdog, not a limit
# on speed. TSAN: worth running under TSan, which sees one process only;
# the TSan build leaves out every test without it.

set(RINGPLANE_TEST_LABELS unit process stress bench-smoke)
set(RINGPLANE_TEST_ENVIRONMENT
  "ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1"
  "UBSAN_OPTIONS=print_stacktrace=1"
  "TSAN_OPTIONS=second_deadlock_stack=1")

# TSan of gcc 12 and clang 14 ends with "unexpected memory mapping" where the kernel
# moves mappings by more than 28 bits.
set(RINGPLANE_TEST_LAUNCHER)
if(RINGPLANE_SANITIZE STREQUAL "thread" AND EXISTS /proc/sys/vm/mmap_rnd_bits)
  file(STRINGS /proc/sys/vm/mmap_rnd_bits rnd_bits)
  find_program(SETARCH setarch)
  if(rnd_bits GREATER 28 AND SETARCH)
    execute_process(COMMAND ${SETARCH} -R true RESULT_VARIABLE setarch_failed ERROR_QUIET)
    if(NOT setarch_failed)
      set(RINGPLANE_TEST_LAUNCHER ${SETARCH} -R)
    endif()
  endif()
endif()

# Sets <out> to whether this build has the test.
function(rp_test_wanted out tsan)
  if(NOT RINGPLANE_TESTS OR (RINGPLANE_SANITIZE STREQUAL "thread" AND NOT tsan))
    set(${out} OFF PARENT_SCOPE)
  else()
    set(${out} ON PARENT_SCOPE)
  endif()
endfunction()

function(rp_add_run name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "TSAN" "LABEL;TIMEOUT" "COMMAND")
  if(arg_UNPARSED_ARGUMENTS OR NOT arg_LABEL IN_LIST RINGPLANE_TEST_LABELS)
    message(FATAL_ERROR "test ${name}: LABEL '${arg_LABEL}' is none of "
      "${RINGPLANE_TEST_LABELS}, or '${arg_UNPARSED_ARGUMENTS}' is too much")
  endif()
  rp_test_wanted(wanted "${arg_TSAN}")
  if(NOT wanted)
    return()
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 300)
  endif()
  add_test(NAME ${name} COMMAND ${RINGPLANE_TEST_LAUNCHER} ${arg_COMMAND})
  set_tests_properties(${name} PROPERTIES
    LABELS ${arg_LABEL} TIMEOUT ${arg_TIMEOUT} SKIP_RETURN_CODE 77
    ENVIRONMENT "${RINGPLANE_TEST_ENVIRONMENT}")
endfunction()

function(rp_add_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "TSAN" "LABEL;TIMEOUT" "SOURCES;ARGS;LIBRARIES")
  rp_test_wanted(wanted "${arg_TSAN}")
  if(NOT wanted)
    return()
  endif()
  if(NOT arg_SOURCES)
    set(arg_SOURCES test_${name}.c)
  endif()
  add_executable(test_${name} ${arg_SOURCES})
  target_include_directories(test_${name} PRIVATE
    ${PROJECT_SOURCE_DIR}/tests ${PROJECT_SOURCE_DIR}/dataplane
    ${PROJECT_SOURCE_DIR}/control)
  target_compile_definitions(test_${name} PRIVATE RPI_TESTING=1)
  target_compile_options(test_${name} PRIVATE -UNDEBUG)
  target_link_libraries(test_${name} PRIVATE
    test_support ${arg_LIBRARIES} ringplane_testing ringplane_flags PkgConfig::CMOCKA PkgConfig::LIBURING
    Threads::Threads m)
  set(options)
  if(arg_TSAN)
    list(APPEND options TSAN)
  endif()
  if(arg_TIMEOUT)
    list(APPEND options TIMEOUT ${arg_TIMEOUT})
  endif()
  rp_add_run(${name} LABEL ${arg_LABEL} ${options}
    COMMAND $<TARGET_FILE:test_${name}> ${arg_ARGS})
endfunction()
