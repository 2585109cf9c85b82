# SPDX-License-Identifier: MIT
# What makes the programs of `rpbench peers`, each where its library is installed. They are
# not part of rpbench, so that none of these libraries is loaded where ringplane is
# measured.

# rpbench_add_transport(NAME MODULE SOURCE): with what pkg-config calls MODULE.
function(rpbench_add_transport name module source)
  string(TOUPPER ${name} upper)
  # Their allocators and hooks and a sanitizer's are in each other's way.
  if(RINGPLANE_SANITIZE)
    return()
  endif()
  pkg_check_modules(${upper} QUIET ${module})
  if(NOT ${upper}_FOUND)
    message(STATUS "rpbench peers: without ${name}, ${module} is not installed")
    return()
  endif()
  add_executable(rpbench_${name}
    ${source} ${RPBENCH_TRANSPORT_SOURCES})
  target_include_directories(rpbench_${name} PRIVATE
    ${CMAKE_CURRENT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/dataplane
    ${PROJECT_SOURCE_DIR}/control)
  target_include_directories(rpbench_${name} SYSTEM PRIVATE ${${upper}_INCLUDE_DIRS})
  target_link_directories(rpbench_${name} PRIVATE ${${upper}_LIBRARY_DIRS})
  target_link_libraries(rpbench_${name} PRIVATE
    ringplane_flags ringplane_static ${${upper}_LIBRARIES} m)
  target_compile_definitions(rpbench PRIVATE
    RPBENCH_${upper}="$<TARGET_FILE:rpbench_${name}>")
  add_dependencies(rpbench rpbench_${name})
endfunction()
